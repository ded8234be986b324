# SPDX-License-Identifier: BSD-2-Clause
"""The tests lie in the rooms of mrc/endpoint; what several of them use lies here, where this file has pytest look."""
