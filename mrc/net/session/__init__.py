# SPDX-License-Identifier: BSD-2-Clause
"""A session of two ends: `qps` describes and connects QPs, `server` serves those who hold its ticket."""
