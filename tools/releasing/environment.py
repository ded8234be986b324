# SPDX-License-Identifier: BSD-2-Clause
"""Installing a wheel into an empty environment, as an ordinary user, and trying it there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from releasing.run import NOBODY, run

from mrc.errors import SystemRefused

SMOKE = Path(__file__).with_name("smoke.py")


def try_wheel(wheel: Path, python: str, wheels: Path, folder: Path, version: str) -> list[str]:
    """Install `wheel` with its dependencies of `wheels`, and nothing else, into a new environment in `folder`. Returns
    what smoke.py prints there, and before that, who tried it.

    Root tries it as "nobody", where that user may run such an interpreter. Raises SystemRefused where something fails.
    """
    program = reachable(python)
    as_root = os.geteuid() == 0 and program is None
    folder.mkdir()
    home = folder / "home"
    home.mkdir()
    if os.geteuid() == 0 and not as_root:
        os.chown(home, NOBODY, NOBODY)
    # Root's own folders may be closed to the user.
    for each in (SMOKE, wheel):
        shutil.copy(each, folder)
    env = {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    venv = home / "venv"

    def as_user(*command: str | Path) -> str:
        return run(command, env=env, cwd=home, as_ordinary_user=not as_root)

    as_user(program or python, "-m", "venv", venv)
    inside = venv / "bin" / "python"
    as_user(inside, "-m", "pip", "install", "--no-index", "--find-links", wheels, folder / wheel.name)
    as_user(inside, "-m", "pip", "check")
    said = as_user(inside, folder / SMOKE.name, "--version", version, "--commands", "--demo").splitlines()
    who = f"as root: an ordinary user may not run {python}" if as_root else f"as an ordinary user, with {program}"
    return [who, *said]


def reachable(python: str) -> str | None:
    """`python`, or the system's interpreter of the same version where an ordinary user may not run that one, or None
    where there is none."""
    version = run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
    system = shutil.which(f"python{version}", path="/usr/local/bin:/usr/bin:/bin")
    for candidate in (os.path.realpath(python), system):
        try:
            if candidate:
                run([candidate, "-c", "import ensurepip"], as_ordinary_user=True)
                return candidate
        except SystemRefused:
            continue
    return None
