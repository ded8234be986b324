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
    what smoke.py prints there.

    Root tries it as "nobody". Raises SystemRefused where something fails, or where nobody may run such an interpreter.
    """
    folder.mkdir()
    home = folder / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    # Root's own folders may be closed to the user.
    for each in (SMOKE, wheel):
        shutil.copy(each, folder)
    env = {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    venv = home / "venv"

    def as_user(*command: str | Path) -> str:
        return run(command, env=env, cwd=home, as_ordinary_user=True)

    as_user(reachable(python), "-m", "venv", venv)
    inside = venv / "bin" / "python"
    as_user(inside, "-m", "pip", "install", "--no-index", "--find-links", wheels, folder / wheel.name)
    as_user(inside, "-m", "pip", "check")
    return as_user(inside, folder / SMOKE.name, "--version", version, "--demo").splitlines()


def reachable(python: str) -> str:
    """`python`, or the system's interpreter of the same version where an ordinary user may not run that one."""
    version = run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
    real = os.path.realpath(python)
    for candidate in (real, shutil.which(f"python{version}", path="/usr/local/bin:/usr/bin:/bin")):
        try:
            if candidate and run([candidate, "-c", "import ensurepip"], as_ordinary_user=True) == "":
                return candidate
        except SystemRefused:
            continue
    raise SystemRefused(
        f"an ordinary user may not run {real}, and there is no python{version} in /usr/bin: "
        f"run this as an ordinary user, or apt install python{version}-venv"
    )
