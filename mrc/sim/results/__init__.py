# SPDX-License-Identifier: BSD-2-Clause
"""What a simulation leaves behind: tables, their Parquet files, and the figures people ask for first."""
