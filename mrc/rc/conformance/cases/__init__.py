# SPDX-License-Identifier: BSD-2-Clause
"""The scripts about RC, a module for each part; each is found by itself."""
