# SPDX-License-Identifier: BSD-2-Clause
"""Manual pages: every command and option has its place, and roff has nothing to complain of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from mrc.cli.man_pages import _plain, commands, pages, write


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1790000000")
        return write(tmp_path_factory.mktemp("man"))


def read(page: str) -> str:
    """What a reader of a page sees, in one line."""
    text = re.sub(r"\\f[BR]|\\&", "", page).replace("\\-", "-").replace("\\e", "\\")
    return re.sub(r"\s+", " ", re.sub(r"^\.(TP|B|BR|SH|PP|nf|fi)\b ?", "", text, flags=re.MULTILINE))


def test_every_command_and_option_is_in_the_pages() -> None:
    texts = {page.words: page.text for page in pages("2026-11-25")}
    options = 0
    for words, context in commands():
        page = read(texts[words])
        assert f"NAME {'-'.join(words)} - " in page
        help_text = context.command.get_short_help_str(limit=1000).rstrip(".")
        assert help_text.replace("`", "") in page
        for param in context.command.get_params(context):
            if isinstance(param, click.Option):
                options += 1
                record = param.get_help_record(context)
                assert record is not None, f"{' '.join(words)} {param.opts}: hidden, and in no page"
                names, said = record
                shown = re.sub(r"\s+", " ", f"{names} {said.replace('`', '')}")
                assert shown in page, f"{' '.join(words)} {names}"
        if isinstance(context.command, click.Group):
            for name in context.command.list_commands(context):
                assert (*words, name) in texts
                assert f"{'-'.join((*words, name))} (1)" in page
    assert len(texts) > 80
    assert options > 400


def test_examples_stand_as_they_are_in_the_help() -> None:
    (cut,) = [page.text for page in pages("2026-11-25") if page.words == ("mrc", "lab", "cut")]
    _, _, examples = cut.partition(".SH EXAMPLES\n.nf\n")
    assert examples.partition(".fi\n")[0] == "".join(
        f"  mrc lab cut {targets}\n" for targets in ("p0l0\\-p0s1", "p0s1 h0\\-p1l0", "plane:1")
    )


def test_pages_name_their_group_and_the_commands_beside_them() -> None:
    (cut,) = [page.text for page in pages("2026-11-25") if page.words == ("mrc", "lab", "cut")]
    _, _, more = cut.partition(".SH SEE ALSO\n")
    assert more.startswith(".BR mrc\\-lab (1),\n")
    assert ".BR mrc\\-lab\\-heal (1),\n" in more
    assert "mrc\\-lab\\-cut" not in more


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        (".pcap or - for a pipe", "\\&.pcap or \\- for a pipe"),
        ("'MRC-ACK-0?'", "\\&'MRC\\-ACK\\-0?'"),
        ("a \\ and `mrc top`", "a \\e and \\fBmrc top\\fR"),
    ],
)
def test_nothing_a_help_says_is_a_command_to_roff(text: str, roff: str) -> None:
    assert _plain(text) == roff


def test_the_same_sources_make_the_same_pages(written: list[Path], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1790000000")
        again = write(tmp_path)
    assert [(path.name, path.read_bytes()) for path in again] == [(path.name, path.read_bytes()) for path in written]
    assert '"2026-09-21"' in written[0].read_text()


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="needs mandoc")
def test_mandoc_finds_nothing_wrong(written: list[Path]) -> None:
    done = subprocess.run(["mandoc", "-Tlint", *written], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff, which man uses")
def test_groff_warns_of_nothing(written: list[Path]) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-Z", *written], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "mrc" in done.stdout
