# SPDX-License-Identifier: BSD-2-Clause
"""What a requestor sends, and when."""
