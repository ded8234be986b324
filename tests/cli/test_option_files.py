# SPDX-License-Identifier: BSD-2-Clause
"""Files that options name and that are missing or something else: one line that names the file and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mrc.cli import main


@pytest.mark.parametrize(
    ("option", "content", "says"),
    [
        ("--fabric", None, "fabric file {file}: No such file or directory"),
        ("--fabric", "no JSON", "fabric file {file}: its text is not JSON: Expecting value at line 1 column 1"),
        ("--fabric", '{"version": 7}', "fabric file {file}: not a version 1 fabric description"),
        ("--fabric", '{"version": 1}', "fabric file {file}: 'ports' is missing"),
        ("--wire-profile", None, "wire profile {file}: No such file or directory"),
        ("--wire-profile", "no JSON", "wire profile {file}: its text is not JSON: Expecting value at line 1 column 1"),
        ("--wire-profile", "[]", "wire profile {file}: a JSON object of switches is expected"),
    ],
)
def test_it_is_one_line(option: str, content: str | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    result = CliRunner().invoke(main, ["recv", "--dir", str(tmp_path), option, str(file)])
    assert (result.exit_code, result.stderr) == (1, f"Error: {says.format(file=file)}\n")
