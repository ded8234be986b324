# SPDX-License-Identifier: BSD-2-Clause
"""The C libraries are compiled again where they have to be, and not at each start of a tool."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mrc.capi import build as builder
from mrc.capi.build import MADE_OF, MRC_OTHER_NAME, MRC_SONAME, PLACES, SONAME, build, build_if_needed


class Compiler:
    """One that says how often it was called, and puts something where it is told to."""

    def __init__(self, folder: Path) -> None:
        self._calls = folder / "calls"
        program = folder / "cc"
        program.write_text(f'#!/bin/sh\necho >>"{self._calls}"\nwhile [ "$1" != -o ]; do shift; done\necho >"$2"\n')
        program.chmod(0o755)
        self.command = [str(program)]

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@pytest.fixture
def cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Sources of the test's own as well."""
    for name in ("SOURCE", "INCLUDE"):
        own = tmp_path / name
        shutil.copytree(getattr(builder, name), own)
        monkeypatch.setattr(builder, name, own)
    return Compiler(tmp_path)


def test_where_nothing_changed_nothing_is_compiled(cc: Compiler, tmp_path: Path) -> None:
    made = build_if_needed(tmp_path / "lib", cc.command)
    assert [each.name for each in made] == [SONAME, MRC_SONAME, MRC_OTHER_NAME]
    assert cc.calls == 2
    assert build_if_needed(tmp_path / "lib", cc.command) == made
    assert cc.calls == 2
    build(tmp_path / "lib", cc.command)
    assert cc.calls == 4


@pytest.mark.parametrize("name", [SONAME, MRC_SONAME, MRC_OTHER_NAME, PLACES.name, MADE_OF])
def test_what_is_gone_is_made_again(cc: Compiler, tmp_path: Path, name: str) -> None:
    build(tmp_path / "lib", cc.command)
    (tmp_path / "lib" / name).unlink()
    build_if_needed(tmp_path / "lib", cc.command)
    assert cc.calls == 4
    assert (tmp_path / "lib" / name).exists()


@pytest.mark.parametrize(
    "pattern", ["SOURCE/*.c", "SOURCE/*.h", "SOURCE/*.map", "SOURCE/lib_mrc/*.c", "INCLUDE/**/*.h"]
)
def test_a_file_that_changed_has_them_compiled(cc: Compiler, tmp_path: Path, pattern: str) -> None:
    build(tmp_path / "lib", cc.command)
    changed = next(iter(tmp_path.glob(pattern)))
    changed.write_text(changed.read_text() + "\n")
    build_if_needed(tmp_path / "lib", cc.command)
    assert cc.calls == 4


def test_another_compiler_or_other_options_compile_them(cc: Compiler, tmp_path: Path) -> None:
    build(tmp_path / "lib", cc.command)
    build_if_needed(tmp_path / "lib", [*cc.command, "-g"])
    assert cc.calls == 4


def test_what_was_refused_is_compiled_the_next_time(cc: Compiler, tmp_path: Path) -> None:
    build(tmp_path / "lib", cc.command)
    with pytest.raises(RuntimeError, match="refuses"):
        build(tmp_path / "lib", ["false"])
    build_if_needed(tmp_path / "lib", cc.command)
    assert cc.calls == 4
