# SPDX-License-Identifier: BSD-2-Clause
"""What a release is made of: versions, notes, contents of an sdist and of wheels. tools/release and tools/install-test
do the rest, which takes minutes."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from releasing.build import promised
from releasing.contents import INDISPENSABLE, LICENCES, MADE, check_libraries, check_sdist, check_wheel
from releasing.notes import UNRELEASED, notes, sections
from releasing.smoke import OPTIONAL

import mrc
from mrc.capi.build import LIB, compiler
from mrc.errors import CallerError

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
MINE = "softmrc-1.0.0-cp311-cp311-manylinux_2_34_x86_64.whl"
TRACKED = (*INDISPENSABLE, "mrc/__init__.py")
COMPILED = ("mrc/_compiled.cpython-311-x86_64-linux-gnu.so", *MADE)


# Versions and notes.


def test_the_version_has_a_section_of_the_changelog() -> None:
    written = [each for each in sections(CHANGELOG) if each.version != UNRELEASED]
    assert written[0].version == mrc.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", mrc.__version__)
    assert notes(CHANGELOG, mrc.__version__, draft=True).startswith(f"# mrc {mrc.__version__}, draft\n")


def test_notes_are_the_newest_section() -> None:
    changelog = (
        "# Changelog\n\nAll.\n\n## [1.1.0] - 2026-12-01\n\n### Added\n- This.\n\n## [1.0.0] - 2026-11-25\n- That.\n"
    )
    assert notes(changelog, "1.1.0") == "# mrc 1.1.0, 2026-12-01\n\n### Added\n- This.\n"
    assert notes(changelog.replace("## [1.1", "## [Unreleased]\n\n## [1.1"), "1.1.0").endswith("- This.\n")


@pytest.mark.parametrize(
    ("changelog", "says"),
    [
        ("# Changelog\n", "has no section"),
        ("## [Unreleased]\n- This.\n## [1.0.0] - 2026-11-25\n- That.\n", "use --draft"),
        ("## [0.9.0] - 2026-11-25\n- That.\n", "is [0.9.0], mrc/__init__.py says 1.0.0"),
        ("## [1.0.0]\n- That.\n", "needs a date"),
        ("## [1.0.0] - soon\n- That.\n", "needs a date"),
        ("## [1.0.0] - 2026-11-25\n", "is empty"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused(changelog: str, says: str) -> None:
    with pytest.raises(CallerError, match=re.escape(says)):
        notes(changelog, "1.0.0")


# Configuration.


def test_cibuildwheel_builds_for_each_promised_python_and_processor() -> None:
    """As `cibuildwheel --print-build-identifiers` names them, which tools/release asks."""
    configured = PYPROJECT["tool"]["cibuildwheel"]
    wanted = promised(ROOT / "pyproject.toml")
    built = {each.replace("*", arch) for each in configured["build"] for arch in configured["linux"]["archs"]}
    assert built == wanted
    assert len(wanted) == 8
    lowest = min(int(re.sub(r"cp3(\d+)-.*", r"\1", each)) for each in wanted)
    assert PROJECT["requires-python"] == f">=3.{lowest}"


def test_the_configured_smoke_test_is_there_and_a_build_that_does_not_compile_fails() -> None:
    configured = PYPROJECT["tool"]["cibuildwheel"]
    assert configured["environment"] == {"MRC_CORE": "compiled"}
    program, script = configured["test-command"].split()
    assert program == "python"
    assert Path(script.format(project=ROOT)).is_file()


def test_nothing_is_compiled_for_the_processor_that_builds() -> None:
    flags = re.findall(r'"(-[^"]*)"', (ROOT / "hatch_build.py").read_text())
    assert "-O2" in flags
    assert not [each for each in flags if each.startswith(("-march", "-mtune", "-mcpu", "-Ofast", "-ffast"))]


def test_the_smoke_test_knows_what_extras_bring() -> None:
    """What it may miss is in some extra, and is nothing that every installation has."""
    extras = " ".join(each for extra in PROJECT["optional-dependencies"].values() for each in extra).replace("-", "_")
    always = " ".join(PROJECT["dependencies"]).replace("-", "_")
    assert all(re.search(rf"\b{each}\b", extras) for each in OPTIONAL)
    assert not [each for each in OPTIONAL if re.search(rf"\b{each}\b", always)]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_checksum_is_right_on_a_processor_without_the_fast_instructions(tmp_path: Path) -> None:
    """As on aarch64: octets.h without what it has for x86-64. CRC-32 of "123456789" is the catalogue's check value."""
    program = tmp_path / "crc.c"
    program.write_text(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "typedef ptrdiff_t Py_ssize_t;\n"
        "#ifdef ELSEWHERE\n#undef __x86_64__\n#endif\n"
        '#include "octets.h"\n'
        "int main(void)\n{\n"
        "    uint8_t many[1000];\n"
        "    for (int i = 0; i < 1000; i++)\n        many[i] = (uint8_t)(i * 7);\n"
        '    printf("%08x %08x\\n", mrc_crc32(0, (const uint8_t *)"123456789", 9), mrc_crc32(0, many, 1000));\n'
        "    return 0;\n}\n"
    )
    many = crc32(bytes(i * 7 & 0xFF for i in range(1000)))
    for flags in (["-DELSEWHERE"], []):
        command = ["cc", "-O1", *flags, f"-I{ROOT / 'mrc' / 'wire'}", "-o", str(tmp_path / "crc"), str(program)]
        subprocess.run(command, check=True)
        said = subprocess.run([str(tmp_path / "crc")], capture_output=True, text=True, check=True).stdout
        assert said == f"cbf43926 {many:08x}\n"


# What is in a wheel and in an sdist.


def written_wheel(
    folder: Path,
    name: str,
    names: Iterable[str],
    *,
    pure: bool,
    metadata: Mapping[str, str],
    manual: bool = True,
    description: str = "",
) -> Path:
    about = {"Name": "softmrc", "Version": "1.0.0", "License-Expression": "BSD-2-Clause AND GPL-2.0-only"} | metadata
    wheel = folder / name
    with zipfile.ZipFile(wheel, "w") as archive:
        for each in names:
            archive.writestr(each, "")
        info = "softmrc-1.0.0.dist-info"
        for licence in LICENCES:
            archive.writestr(f"{info}/licenses/{licence}", "")
        if manual:
            archive.writestr("softmrc-1.0.0.data/data/share/man/man1/mrc.1", "")
        archive.writestr(
            f"{info}/METADATA", "".join(f"{key}: {value}\n" for key, value in about.items()) + f"\n{description}"
        )
        archive.writestr(f"{info}/WHEEL", f"Root-Is-Purelib: {str(pure).lower()}\nTag: some\n")
    return wheel


def test_wheels_as_they_have_to_be(tmp_path: Path) -> None:
    compiled = written_wheel(tmp_path, MINE, TRACKED + COMPILED, pure=False, metadata={})
    assert check_wheel(compiled, TRACKED, "1.0.0")
    pure = written_wheel(tmp_path, "softmrc-1.0.0-py3-none-any.whl", TRACKED, pure=True, metadata={})
    assert not check_wheel(pure, TRACKED, "1.0.0")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"names": (*TRACKED, *COMPILED, "tests/test_core.py")}, "holds what the commit does not: tests/test_core.py"),
        ({"names": (*TRACKED, *COMPILED, "mrc/wire/icrc.c")}, "mrc/wire/icrc.c"),
        ({"names": TRACKED[1:] + COMPILED}, "lacks mrc/py.typed"),
        ({"names": TRACKED + COMPILED[:1]}, "has only mrc/_compiled"),
        ({"names": TRACKED + COMPILED[:-1]}, "has only mrc/_compiled"),
        ({"names": TRACKED}, "is not compiled, and tagged"),
        ({"manual": False}, "lacks its manual pages"),
        ({"pure": True}, "is compiled, and tagged"),
        ({"name": "softmrc-1.0.0-py3-none-any.whl"}, "is compiled, and tagged"),
        ({"metadata": {"License-Expression": "MIT"}}, "its License-Expression is MIT"),
        ({"metadata": {"Version": "1.0.1"}}, "its Version is 1.0.1"),
        (
            {"description": "See [a](https://a.example/) and [b](docs/b.md).\n"},
            "its description links docs/b.md, which",
        ),
    ],
)
def test_a_wheel_that_is_not_is_refused_by_what_is_wrong(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    usual: dict[str, Any] = {"name": MINE, "names": TRACKED + COMPILED, "pure": False, "metadata": {}}
    wheel = written_wheel(tmp_path, **(usual | change))
    with pytest.raises(CallerError, match=re.escape(says)):
        check_wheel(wheel, TRACKED, "1.0.0")


@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_a_shared_object_that_needs_libpython_is_refused(tmp_path: Path) -> None:
    """What this checkout has built is not, its compiled datapath among it where it has one."""
    (tmp_path / "empty.c").write_text("")
    python = tmp_path / "libpython3.11.so.1.0"
    shared = [*compiler(), "-shared", "-fPIC", str(tmp_path / "empty.c"), "-Wl,--no-as-needed"]
    subprocess.run([*shared, f"-Wl,-soname,{python.name}", "-o", str(python)], check=True)
    subprocess.run([*shared, str(python), "-o", str(tmp_path / "linked.so")], check=True)
    own = [*LIB.glob("*.so*"), *(ROOT / "mrc").glob("_compiled.*.so")]
    assert len(own) >= 3
    for name, files in {"right.whl": own, "wrong.whl": [*own, tmp_path / "linked.so"]}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for each in files:
                archive.write(each, f"mrc/{each.name}")
    check_libraries(tmp_path / "right.whl")
    with pytest.raises(CallerError, match=re.escape("mrc/linked.so needs libpython3.11.so.1.0")):
        check_libraries(tmp_path / "wrong.whl")


def test_an_sdist_with_rubbish_is_refused(tmp_path: Path) -> None:
    sdist = tmp_path / "softmrc-1.0.0.tar.gz"
    about = b"Name: softmrc\nVersion: 1.0.0\nLicense-Expression: BSD-2-Clause AND GPL-2.0-only\n"
    for names, says in ((("core.dump", "mrc/x.py"), "core.dump"), (("mrc/y.py",), "lacks mrc/x.py")):
        with tarfile.open(sdist, "w:gz") as archive:
            for name in ("PKG-INFO", *names):
                member = tarfile.TarInfo(f"softmrc-1.0.0/{name}")
                member.size = len(about) if name == "PKG-INFO" else 0
                archive.addfile(member, io.BytesIO(about))
        with pytest.raises(CallerError, match=says):
            check_sdist(sdist, ["mrc/x.py", ".ci/run"], "1.0.0")


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


def test_without_a_compiler_the_sdist_makes_a_wheel_for_any_system(
    sdist: Path, tracked: list[str], tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"softmrc-{mrc.__version__}"
    done = hatch(source, "wheel", tmp_path / "made", CC="/no/compiler/here")
    assert done.returncode == 0, done.stdout
    assert "mrc is not compiled and will run interpreted: there is no C compiler (/no/compiler/here)" in done.stdout
    (wheel,) = (tmp_path / "made").iterdir()
    assert wheel.name == f"softmrc-{mrc.__version__}-py3-none-any.whl"
    assert not check_wheel(wheel, tracked, mrc.__version__)
    with zipfile.ZipFile(wheel) as archive:
        pages = [name for name in archive.namelist() if "/share/man/man1/mrc" in name]
    assert len(pages) > 80
    done = hatch(source, "wheel", tmp_path / "refused", CC="/no/compiler/here", MRC_CORE="compiled")
    assert done.returncode != 0
    assert "there is no C compiler (/no/compiler/here): apt install gcc" in done.stdout
