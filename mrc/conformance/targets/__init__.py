# SPDX-License-Identifier: BSD-2-Clause
"""The targets there are: this project's endpoint in one process, and whatever an adapter of somebody else's makes."""
