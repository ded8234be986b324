# SPDX-License-Identifier: BSD-2-Clause
"""The experiments of the MRC papers, scaled to one machine: each builds a lab, breaks it under load, and judges."""
