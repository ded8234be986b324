# SPDX-License-Identifier: BSD-2-Clause
"""The control: messages that a rank leaves or its group has failed, and notice of processes that have ended."""
