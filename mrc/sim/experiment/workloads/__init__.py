# SPDX-License-Identifier: BSD-2-Clause
"""Who sends what to whom: each kind of workload makes the flows of a job, in numbers of its ranks."""
