# SPDX-License-Identifier: BSD-2-Clause
"""Errors of topology files: each names file, line, column and key, and says what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.fabric.file import TopologyFile
from mrc.fabric.structure import Problem
from mrc.fabric.yaml_file import FileProblems

# The text; line, column and key of each error, and a part of its message.
WRONG: dict[str, tuple[str, list[tuple[int, int, str, str]]]] = {
    "a misspelt key": (
        "planes: 2\n\nsipnes: 4\n",
        [(3, 1, "sipnes", "unknown key, did you mean spines?")],
    ),
    "a key nothing is like": (
        "planes: 2\nx: 4\n",
        [(2, 1, "x", "unknown key, there are name, shape, mode, planes, leaves")],
    ),
    "a misspelt key of a link": (
        "links:\n  p0l0-p0s1:\n    los: 1%\n",
        [(3, 5, "links.p0l0-p0s1.los", "unknown key, did you mean loss?")],
    ),
    "a key in the wrong place": (
        "host_links:\n  toward: {h0: {loss: 1%}}\n",
        [(2, 3, "host_links.toward", "unknown key")],
    ),
    "several at once, in the order of lines": (
        "mtu: 100\nplanes: true\nmode: srv7\nspines: many\n",
        [
            (1, 6, "mtu", "must be a whole number from 1280 to 65535, got 100"),
            (2, 9, "planes", "must be a whole number from 1 to 16, got true"),
            (3, 7, "mode", "must be one of srv6, srv6-srh, stev, ecmp, got srv7"),
            (4, 9, "spines", "must be a whole number from 1 to 256, got many"),
        ],
    ),
    "a key without a value": ("planes:\n", [(1, 8, "planes", "must be a whole number from 1 to 16, got nothing")]),
    "a fraction": ("planes: 1.5\n", [(1, 9, "planes", "must be a whole number from 1 to 16, got 1.5")]),
    "a list for a number": ("planes: [1]\n", [(1, 9, "planes", "whole number from 1 to 16, got a list of 1 item")]),
    "a mapping for a number": ("planes: {a: 1}\n", [(1, 9, "planes", "whole number from 1 to 16, got a mapping")]),
    "no mapping at all": ("- planes\n", [(1, 1, "", "must be a mapping with keys out of name, shape, mode, planes")]),
    "a rate without its unit": (
        "fabric_links: {rate: 1Gbps}\n",
        [(1, 22, "fabric_links.rate", "must be a rate such as 1gbit or 200mbit, got 1Gbps")],
    ),
    "a loss without its unit": (
        "links: {p0l0-p0s0: {loss: 0.01}}\n",
        [(1, 27, "links.p0l0-p0s0.loss", "must be a percentage such as 1% or 0.5%, got 0.01")],
    ),
    "a loss above everything": (
        "host_links: {loss: 101%}\n",
        [(1, 20, "host_links.loss", "from 0% and up to 100%")],
    ),
    "a rate out of range": ("host_links: {rate: 5bit}\n", [(1, 20, "host_links.rate", "from 100000 to")]),
    "a name no lab can have": (
        "name: ../etc\n",
        [(1, 7, "name", "must be a lab name such as mrc or rail-8, got ../etc")],
    ),
    "the same key twice": ("planes: 2\nmtu: 1500\nplanes: 3\n", [(3, 1, "planes", "said twice, first in line 1")]),
    "no such link": (
        "spines: 2\nlinks:\n  p0l0-p0s2: {loss: 1%}\n",
        [(3, 3, "links.p0l0-p0s2", "this fabric has no such link, did you mean p0l0-p0s")],
    ),
    "a link upside down": (
        "links:\n  p0s1-p0l0: {loss: 1%}\n",
        [(2, 3, "links.p0s1-p0l0", "no such link, did you mean p0l0-p0s1?")],
    ),
    "a link between planes": ("links: {p0l0-p1s0: {}}\n", [(1, 9, "links.p0l0-p1s0", "no such link")]),
    "no end of this link": (
        "links:\n  p0l0-p0s1:\n    toward:\n      p0s2: {loss: 1%}\n",
        [(4, 7, "links.p0l0-p0s1.toward.p0s2", "no end of p0l0-p0s1: its ends are p0l0 and p0s1")],
    ),
    "marks where it trims": (
        "fabric_links:\n  rate: 1gbit\n  ecn_at: 100KB\n  trim_at: 100KB\n",
        [(3, 11, "fabric_links.ecn_at", "must be below trim_at, which is 100KB")],
    ),
    "trims where it drops": (
        "fabric_links: {rate: 1gbit, trim_at: 0.5MB, queue: 400KB}\n",
        [(1, 38, "fabric_links.trim_at", "must be below queue, which is 400KB")],
    ),
    "thresholds in disorder through an override": (
        "fabric_links: {rate: 1gbit, queue: 400KB, ecn_at: 100KB}\nlinks:\n  p0l0-p0s1: {queue: 80KB}\n",
        [(1, 51, "fabric_links.ecn_at", "must be below queue, which is 80KB")],
    ),
    "trims before nothing": (
        "fabric_links: {trim_to: 256, trim_dscp: 48}\n",
        [(1, 25, "fabric_links.trim_to", "needs a rate beside it")],
    ),
    "a codepoint out of range": (
        "host_links: {rate: 1gbit, trim_dscp: 64}\n",
        [(1, 38, "host_links.trim_dscp", "64")],
    ),
    "a queue before nothing": (
        "host_links: {queue: 100KB}\n",
        [(1, 21, "host_links.queue", "needs a rate beside it")],
    ),
    "too many hosts": (
        "leaves: 16\nhosts_per_leaf: 17\n",
        [(2, 17, "hosts_per_leaf", "leaves times hosts_per_leaf must be 1..256, got 272")],
    ),
    "a block of other length": (
        "block: 5f00::/48\n",
        [(1, 8, "block", "an IPv6 prefix of 32 bits such as 5f00:0::/32")],
    ),
    "a block with more than 32 bits in it": ("block: 5f00::1/32\n", [(1, 8, "block", "has host bits set")]),
    "a block that is no address": ('block: "5f00:::/32"\n', [(1, 8, "block", "is not an IPv6 prefix of 32 bits")]),
    "the block of the plain addresses": ("block: fd4d:5243::/32\n", [(1, 8, "block", "the plain addresses")]),
    "a multicast block": ("block: ff00::/32\n", [(1, 8, "block", "from 2000::/32 to fdff:ffff::/32")]),
    "broken YAML": ("planes: 2\nlinks: {a: [1, 2\n", [(3, 1, "", "not YAML: while parsing a flow sequence")]),
    "two documents": ("planes: 2\n---\nplanes: 3\n", [(2, 1, "", "but found another document")]),
    "a tab for indentation": ("links:\n\tp0l0-p0s0: {}\n", [(2, 1, "", "not YAML: while scanning for the next token")]),
    "a character that may not be there": ("planes: 2\nname: a\x07b\n", [(2, 8, "", "the character #x0007")]),
    "an impossible date": ("mode: 2001-99-99\n", [(1, 7, "mode", "month must be in 1..12")]),
    "a Python object": ("name: !!python/name:os.system x\n", [(1, 7, "", "could not determine a constructor")]),
    "a mapping as a key": ("? {a: b}\n: c\n", [(1, 3, "", "a key is a word")]),
    "an alias of itself": ("links: &a {b: *a}\n", [(1, 8, "links.b.b.b.b.b.b.b.b.b", "nested too deep")]),
    "an alias that does not exist": ("links: *slow\n", [(1, 8, "", "found undefined alias")]),
    "nested without end": ("[" * 100_000, [(1, 12, "", "nested too deep")]),
    "no number": ("mtu: .nan\n", [(1, 6, "mtu", ".nan is no finite number")]),
    "a number without end": ("planes: -.inf\n", [(1, 9, "planes", "-.inf is no finite number")]),
    "a number beyond a double": ("planes: 1.0e+999\n", [(1, 9, "planes", "1.0e+999 is no finite number")]),
    "thousands of digits": (f"mtu: 0x{'f' * 5000}\n", [(1, 6, "mtu", "a number of more than 40 digits")]),
    "minutes of minutes": (f"mtu: 1{':59' * 3000}\n", [(1, 6, "mtu", "a number of more than 40 digits")]),
    "too many minutes": (f"mtu: 1{':59' * 300}.5\n", [(1, 6, "mtu", "not YAML: int too large to convert to float")]),
    "half a pair": ('name: "\\ud800"\n', [(1, 7, "name", "half of a surrogate pair")]),
    "a tag that does not fit": ("fast: !!bool x\n", [(1, 7, "fast", "not YAML: x is no tag:yaml.org,2002:bool")]),
    "no time": ("mtu: !!timestamp x\n", [(1, 6, "mtu", "not YAML: x is no tag:yaml.org,2002:timestamp")]),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_names_its_place_and_what_would_be_right(what: str) -> None:
    text, expected = WRONG[what]
    with pytest.raises(FileProblems) as caught:
        TopologyFile.parsed(text, "fabric.yaml").description()
    found = [(each.line, each.column, each.key) for each in caught.value.problems]
    assert found == [each[:3] for each in expected]
    lines = str(caught.value).split("\n")
    assert len(lines) == len(expected)
    for line, (number, column, key, message) in zip(lines, expected, strict=True):
        assert line.startswith(f"fabric.yaml:{number}:{column}: {key}")
        assert message in line


def test_words_of_the_file_cannot_write_on_the_terminal() -> None:
    text = '"\\e[2J": 1\nmode: "a\\nb"\nname: ' + "x" * 300
    with pytest.raises(FileProblems) as caught:
        TopologyFile.parsed(text)
    assert len(str(caught.value).split("\n")) == 3
    assert all(line.isprintable() and len(line) < 250 for line in str(caught.value).split("\n"))


keys = st.sampled_from(["planes", "leaves", "spines", "hosts_per_leaf", "mtu", "name", "host_links", "fabric_links"])
fillers = st.lists(st.sampled_from(["", "# a comment", "   # another", "#"]), max_size=4)


@given(st.lists(keys, unique=True, min_size=1), st.data())
def test_the_line_of_an_error_is_where_a_search_finds_it(chosen: list[str], data: st.DataObject) -> None:
    bad = data.draw(st.sampled_from(chosen))
    lines: list[str] = []
    for key in chosen:
        lines += data.draw(fillers)
        lines.append(f"{key}: [here]" if key == bad else f"{key}: {RIGHT[key]}")
    with pytest.raises(FileProblems) as caught:
        TopologyFile.parsed("\n".join(lines))
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (lines.index(f"{bad}: [here]") + 1, len(bad) + 3)
    assert problem.key == bad


RIGHT = {
    "planes": "3",
    "leaves": "4",
    "spines": "5",
    "hosts_per_leaf": "2",
    "mtu": "9000",
    "name": "x",
    "host_links": "{rate: 1gbit}",
    "fabric_links": "{loss: 1%}",
}


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda each: each.decode("latin-1")))
def test_any_text_at_all_is_read_or_refused_with_a_place(text: str) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        TopologyFile.parsed(text).description()
    except FileProblems as error:
        problems = error.problems
    if problems:
        assert all(each.line >= 1 and each.column >= 1 and each.message for each in problems)
    else:
        assert yaml.safe_load(text) is None or isinstance(yaml.safe_load(text), dict)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="No such file"):
        TopologyFile.read(tmp_path / "none.yaml")
    with pytest.raises(CallerError, match="Is a directory"):
        TopologyFile.read(tmp_path)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (1 << 21))
    with pytest.raises(CallerError, match="larger than"):
        TopologyFile.read(huge)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"planes: 2\n# f\xfcnf\n")
    with pytest.raises(FileProblems, match=r"latin\.yaml:2:1: not text in UTF-8"):
        TopologyFile.read(latin)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_text("planes: 3\n", encoding="utf-8-sig")
    assert TopologyFile.read(path).description().shape.planes == 3


def test_a_small_text_cannot_become_a_huge_document() -> None:
    levels = [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 9)]
    with pytest.raises(FileProblems, match="nested too deep, or more values than a file may have"):
        TopologyFile.parsed("\n".join(["a0: &a0 [1, 2]", *levels]))
