# SPDX-License-Identifier: BSD-2-Clause
"""Conformance of plain RoCEv2 RC, `mrc conformance run --transport rc`: docs/contributing/requirements-rc.md as cases.

Bench, expectations and reports are those of MRC; `bench` takes from MRC's packets what RC does not have. The tester's
table of its opcodes is `mrc.conformance.codec.rc`. `in_process` has this project's RC endpoint in virtual time.
"""
