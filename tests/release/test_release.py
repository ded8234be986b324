# SPDX-License-Identifier: BSD-2-Clause
"""What a release is made of: versions, notes, contents of an sdist and of wheels. tools/release and tools/install-test
do the rest, which takes minutes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from releasing.contents import MADE, check_libraries, check_sdist, check_wheel
from releasing.notes import UNRELEASED, notes, sections

import mrc
from mrc.capi.build import LIB, compiler
from mrc.errors import CallerError

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


# Versions and notes.


def test_the_version_has_a_section_of_the_changelog() -> None:
    written = [each for each in sections(CHANGELOG) if each.version != UNRELEASED]
    assert written[0].version == mrc.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", mrc.__version__)
    assert notes(CHANGELOG, mrc.__version__, draft=True).startswith(f"# mrc {mrc.__version__}, draft\n\n#")


@pytest.mark.parametrize(
    ("changelog", "says"),
    [
        ("## [Unreleased]\n- This.\n## [1.0.0] - 2026-11-25\n- That.\n", "use --draft"),
        ("## [0.9.0] - 2026-11-25\n- That.\n", "is [0.9.0], mrc/__init__.py says 1.0.0"),
        ("## [1.0.0] - soon\n- That.\n", "needs a date"),
        ("## [1.0.0] - 2026-11-25\n", "is empty"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused(changelog: str, says: str) -> None:
    with pytest.raises(CallerError, match=re.escape(says)):
        notes(changelog, "1.0.0")


def test_nothing_is_compiled_for_the_processor_that_builds() -> None:
    flags = re.findall(r'"(-[^"]*)"', (ROOT / "hatch_build.py").read_text())
    assert "-O2" in flags
    assert not [each for each in flags if each.startswith(("-march", "-mtune", "-mcpu", "-Ofast", "-ffast"))]


# What is in a wheel and in an sdist.


@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_no_shared_object_needs_libpython(tmp_path: Path) -> None:
    """What this checkout has built, its compiled datapath among it where it has one."""
    own = [*LIB.glob("*.so*"), *(ROOT / "mrc").glob("_compiled.*.so")]
    assert len(own) >= 3
    with zipfile.ZipFile(tmp_path / "built.whl", "w") as archive:
        for each in own:
            archive.write(each, f"mrc/{each.name}")
    check_libraries(tmp_path / "built.whl")


# The build itself, without compiling.


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git checkout")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def hatch(source: Path, target: str, to: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)],
        cwd=source,
        env={**os.environ, "MRC_CORE": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def sdist(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy in which rubbish lies about, as in a checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in (*tracked, "LICENSE"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    (source / "core.1234").write_text("a dump")
    (source / "mrc" / "__pycache__").mkdir()
    (source / "mrc" / "__pycache__" / "core.cpython-311.pyc").write_text("")
    (source / "mrc" / "_compiled.cpython-311-x86_64-linux-gnu.so").write_text("of an earlier build")
    made = tmp_path_factory.mktemp("sdist")
    done = hatch(source, "sdist", made)
    assert done.returncode == 0, done.stdout
    (found,) = made.iterdir()
    return found


def test_the_sdist_holds_the_checkout_and_no_rubbish(sdist: Path, tracked: list[str]) -> None:
    check_sdist(sdist, tracked, mrc.__version__)
    for other, says in ((tracked[:-1], "holds what the commit does not"), ([*tracked, "mrc/x.py"], "lacks mrc/x.py")):
        with pytest.raises(CallerError, match=says):
            check_sdist(sdist, other, mrc.__version__)


def test_without_a_compiler_the_sdist_makes_a_wheel_for_any_system(
    sdist: Path, tracked: list[str], tmp_path: Path
) -> None:
    subprocess.run(["tar", "-xf", sdist, "-C", tmp_path], check=True)
    source = tmp_path / f"softmrc-{mrc.__version__}"
    done = hatch(source, "wheel", tmp_path / "made", CC="/no/compiler/here")
    assert done.returncode == 0, done.stdout
    assert "mrc is not compiled and will run interpreted: there is no C compiler (/no/compiler/here)" in done.stdout
    (wheel,) = (tmp_path / "made").iterdir()
    assert wheel.name == f"softmrc-{mrc.__version__}-py3-none-any.whl"
    assert not check_wheel(wheel, tracked, mrc.__version__)
    with pytest.raises(CallerError, match=r"lacks mrc/x\.py"):
        check_wheel(wheel, [*tracked, "mrc/x.py"], mrc.__version__)
    with zipfile.ZipFile(wheel, "a") as archive:
        pages = [name for name in archive.namelist() if "/share/man/man1/mrc" in name]
        archive.writestr(MADE[0], "")
    assert len(pages) > 80
    with pytest.raises(CallerError, match=r"has only mrc/compiled\.json of what compiling makes"):
        check_wheel(wheel, tracked, mrc.__version__)
    done = hatch(source, "wheel", tmp_path / "refused", CC="/no/compiler/here", MRC_CORE="compiled")
    assert done.returncode != 0
    assert "there is no C compiler (/no/compiler/here): apt install gcc" in done.stdout
