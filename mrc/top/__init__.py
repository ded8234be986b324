# SPDX-License-Identifier: BSD-2-Clause
"""The live view of running endpoints: figures from two answers of a control socket, the screen they make, the keys."""
