# SPDX-License-Identifier: BSD-2-Clause
"""Running a program as an ordinary user, whoever runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOBODY = 65534


def ordinary() -> dict[str, Any]:
    """What makes a program run as an ordinary user: whoever runs the tests, or else nobody."""
    return {} if os.geteuid() else {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def environment() -> dict[str, str]:
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def python() -> str:
    """An interpreter that an ordinary user may run; that of the tests may lie in a home directory."""
    trial = "import mrc.cli, mrc.lab.messages, numpy, cryptography"
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")):
        argv = ["unshare", "--user", "--map-root-user", "--net", "--mount", str(candidate), "-c", trial]
        try:
            done = subprocess.run(argv, env=environment(), capture_output=True, check=False, **ordinary())
        except OSError:
            continue
        if done.returncode == 0:
            return str(candidate)
    what = "needs user namespaces, and a Python that an ordinary user may run, of the version of this one"
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
