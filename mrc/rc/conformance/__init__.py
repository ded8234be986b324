"""Conformance of plain RoCEv2 RC, `mrc conformance run --transport rc`: docs/requirements-rc.md as cases.

Bench, expectations and reports are those of MRC; `bench` takes from MRC's packets what RC does not have, `codec/rc.py`
beside the other tables has its opcodes, `in_process` this project's RC endpoint in virtual time.
"""
