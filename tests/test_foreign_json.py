# SPDX-License-Identifier: BSD-2-Clause
"""One place reads JSON (mrc/untrusted.py), and what it takes of somebody else's is bounded in every way."""

from __future__ import annotations

import ast
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mrc
from mrc.errors import CallerError
from mrc.fabric.events import parse_line
from mrc.fabric.host_view import Fabric
from mrc.trace.records import decode
from mrc.untrusted import MAX_DEPTH, MOST_DIGITS, NotJson, depth_of, parse_json
from mrc.wire.profile import WireProfile

PACKAGE = Path(mrc.__file__).parent
READERS = {"load", "loads", "JSONDecoder", "raw_decode", "scanner", "decoder"}


def reads_json(source: str) -> Iterator[int]:
    """The lines of a module that read JSON by the standard library, under whatever name it has there."""
    if "json" not in source:  # the name of each module that has readers
        return
    tree = ast.parse(source)
    names = {"json"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name for each in node.names if each.name.partition(".")[0] == "json"}
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("json", "_json", "orjson"):
            yield from (node.lineno for each in node.names if each.name in READERS)
        if isinstance(node, ast.Attribute) and node.attr in READERS:
            base = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in names:
                yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads(x)",
        "import json as j\nj.load(x)",
        "from json import loads as read\nread(x)",
        "import json\njson.JSONDecoder().decode(x)",
        "import json.decoder\njson.decoder.JSONDecoder()",
        "import json\nread = json.loads",
    ],
)
def test_a_reader_is_found_however_it_is_written(source: str) -> None:
    assert list(reads_json(source))


def test_json_is_read_in_one_place() -> None:
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if any(reads_json(path.read_text()))}
    assert found == {"untrusted.py"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a":[0,{"b.c":Infinity}]}', 'it is not JSON: Infinity is no JSON number at a[1]["b.c"]'),
        (b"[1,NaN]", "it is not JSON: NaN is no JSON number at [1]"),
        (b"-Infinity", "it is not JSON: -Infinity is no JSON number"),
        (b'{"x":{"y":-1e999}}', "it is not JSON: -1e999 is beyond a double at x.y"),
        (b'{"x":' + b"9" * 5000 + b"}", "it is not JSON: a number of 5000 digits at x"),
        (b"9" * (MOST_DIGITS + 1), f"it is not JSON: a number of {MOST_DIGITS + 1} digits"),
        (b'{"a":["\\ud800"]}', "it is not JSON: half of a surrogate pair at a[0]"),
        (b'{"a":{"\\udfff":1}}', "it is not JSON: half of a surrogate pair in a key of a"),
        (b'{"\\udfff":1}', "it is not JSON: half of a surrogate pair in a key of the document"),
        (b'{"a":\n "\xff"}', "it is not UTF-8 at line 2 column 3"),
        (b'{"a":\n 1,}', "it is not JSON: Expecting property name enclosed in double quotes at line 2 column 4"),
        (b"", "it is not JSON: Expecting value at line 1 column 1"),
        (b"\n" + b"[" * 33 + b"]" * 33, "it is nested more than 32 levels deep at line 2 column 33"),
        (b'{"a":' * 5000, "it is nested more than 32 levels deep at line 1 column 161"),
        (b'["' + b"]" * 40 + b'",' + b"[" * 40, "it is nested more than 32 levels deep at line 1 column 76"),
    ],
)
def test_what_is_refused_is_named_with_its_place(content: bytes, said: str) -> None:
    with pytest.raises(NotJson) as raised:
        parse_json(content)
    assert str(raised.value) == said


def test_what_is_at_the_edge_is_taken() -> None:
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    assert parse_json(b"9" * MOST_DIGITS) == int("9" * MOST_DIGITS)
    assert parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"
    assert parse_json(b'"' + b"[{" * 100 + b'"') == "[{" * 100
    assert parse_json(b"1.7976931348623157e308") == 1.7976931348623157e308
    assert parse_json(b"[1]", most_bytes=3) == [1]
    assert parse_json(b'{"\\udcff":"\\udc80"}', file_names=True) == {"\udcff": "\udc80"}
    for half in (b"\\ud800", b"\\udc7f", b"\\udd00"):
        with pytest.raises(NotJson, match="half of a surrogate pair at a"):
            parse_json(b'{"a":"\\udcff' + half + b'"}', file_names=True)
    with pytest.raises(NotJson, match="it has 4 bytes, 3 are the most"):
        parse_json(b"[10]", most_bytes=3)


SHAPES = {
    "nested": b"[" * 300_000,
    "nested objects": b'{"a":' * 60_000,
    "closed": b"[" * 150_000 + b"]" * 150_000,
    "empty objects": b"[" + b"{}," * 100_000 + b"0]",
    "small objects": b"[" + b'{"":0},' * 43_000 + b"0]",
    "pairs": b"[" + b"[1,2]," * 50_000 + b"0]",
    "numbers": b"[" + b"300," * 75_000 + b"0]",
    "fractions": b"[" + b"0.1," * 75_000 + b"0]",
    "strings": b"[" + b'"ab",' * 60_000 + b"0]",
    "keys": b"{" + b",".join(b'"%x":0' % i for i in range(30_000)) + b"}",
    "quotes": b'"' + b'\\"' * 150_000,
    "digits": b"9" * 300_000,
    "one string": b'"' + b"a" * 300_000 + b'"',
}


@pytest.mark.parametrize("name", SHAPES)
def test_memory_is_a_few_times_the_input(name: str) -> None:
    """Whatever 300 KB hold: refused before anything is made of it, or at most 16 times as much."""
    content = SHAPES[name]
    tracemalloc.start()
    try:
        try:
            parse_json(content)
            most = 16
        except NotJson:
            most = 3
        assert tracemalloc.get_traced_memory()[1] < most * len(content)
    finally:
        tracemalloc.stop()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 64), 1 << 64) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES, st.booleans())
def test_what_json_can_say_is_read_back_and_all_else_is_refused(value: object, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    try:
        content = text.encode()
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        sound = depth_of(value) <= MAX_DEPTH
    except ValueError:
        content, sound = text.encode(errors="surrogatepass"), False
    if sound:
        assert parse_json(content) == value
    else:
        with pytest.raises(NotJson):
            parse_json(content)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\0123456789eE.-+NaInfityu d8').map(str.encode))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        found = parse_json(content)
    except NotJson as refused:
        found = str(refused)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


HOSTILE = [
    *(b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b'"\\ud800"', b"NaN", b"Infinity", b"1e999", b"\xff", b"[]"),
    *(b'"' * 3, b"{}", b"null", b'{"version":1,"ports":1e999}', b'{"version":1,"ports":[[]]}'),
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_files_that_users_name_end_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "it.json"
    path.write_bytes(content)
    with pytest.raises(CallerError) as raised:
        Fabric.load(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    if content != b"{}":
        with pytest.raises(CallerError) as raised:
            WireProfile.from_option([str(path)])
        assert "wire profile" in str(raised.value)
    with pytest.raises(CallerError):
        WireProfile.from_option([f"udp_port={content.decode(errors='surrogateescape')}"])


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_records_that_are_none_are_passed_over(content: bytes) -> None:
    assert decode(content) is None or content in (b"{}",) or content.startswith(b'{"version"')
    assert parse_line(content) is None
