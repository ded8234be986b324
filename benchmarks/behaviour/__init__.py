# SPDX-License-Identifier: BSD-2-Clause
"""The protocol's promises as experiments in virtual time: figures, each with the bar it has to clear."""
