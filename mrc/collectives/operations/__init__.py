# SPDX-License-Identifier: BSD-2-Clause
"""The operations of a group: what each sends to whom, in which order, and what it does with what comes."""
