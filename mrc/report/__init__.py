# SPDX-License-Identifier: BSD-2-Clause
"""What a report is made of: units, expectations, tables, pages of HTML, plots. Each in a module of its own."""
