# SPDX-License-Identifier: BSD-2-Clause
"""What a run found out, for people and for programs: one JSON document, JUnit XML, one HTML page, a pcap a case."""
