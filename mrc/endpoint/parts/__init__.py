# SPDX-License-Identifier: BSD-2-Clause
"""Small parts the rest is made of: columns of numbers, heaps, tables, deadlines, flags."""
