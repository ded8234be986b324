# SPDX-License-Identifier: BSD-2-Clause
"""Applications on `mrc.verbs` as programs are written: what they reach while they compute, or all send and receive."""
