# SPDX-License-Identifier: BSD-2-Clause
"""The drill `training`: hosts train a small model together while the network between them breaks."""
