# SPDX-License-Identifier: BSD-2-Clause
"""The cases: a folder for each group, a module for each part of the requirements. Each is found by itself."""
