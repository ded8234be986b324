# SPDX-License-Identifier: BSD-2-Clause
"""Path health: which EVs there are, what state each is in, and which one a packet gets."""
