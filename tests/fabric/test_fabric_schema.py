# SPDX-License-Identifier: BSD-2-Clause
"""The published schema and the loader: what one takes the other takes, and what both take has a meaning."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mrc.errors import CallerError
from mrc.fabric import FORWARDING_MODES, Clos, Description
from mrc.fabric.block import parse_block
from mrc.fabric.file import TopologyFile
from mrc.fabric.link_keys import LINK_KEYS
from mrc.fabric.structure import schema_text, shape_keys
from mrc.fabric.units import duration_ns, duration_text, rate_bps, rate_text, share, share_text, size_bytes, size_text
from mrc.fabric.yaml_file import FileProblems

DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED = DOCS / "topology.schema.json"
SCHEMA: dict[str, Any] = json.loads(PUBLISHED.read_text())
VALIDATOR = Draft202012Validator(SCHEMA)

# ------------------------------------------------------------------ the schema itself


def test_the_package_ships_what_is_published() -> None:
    assert schema_text() == PUBLISHED.read_text()
    Draft202012Validator.check_schema(SCHEMA)


def test_defaults_and_ranges_are_those_of_the_fabric() -> None:
    default = Clos().to_json()
    for key in shape_keys():
        said = SCHEMA["properties"][key]
        assert (parse_block(said["default"]) if key == "block" else said["default"]) == default[key], key
        if said.get("type") == "integer":
            for value in (said["minimum"], said["maximum"]):
                Clos(**{"leaves": 1, "hosts_per_leaf": 1, key: value})
            for value in (said["minimum"] - 1, said["maximum"] + 1):
                with pytest.raises(CallerError):
                    Clos(**{"leaves": 1, "hosts_per_leaf": 1, key: value})
    assert tuple(SCHEMA["properties"]["mode"]["enum"]) == FORWARDING_MODES


def test_every_key_of_a_link_is_understood_and_every_one_understood_is_published() -> None:
    assert SCHEMA["$defs"]["impairment"]["properties"].keys() == LINK_KEYS.keys()
    assert SCHEMA["$defs"]["link"]["properties"].keys() == LINK_KEYS.keys() | {"toward"}
    assert SCHEMA["properties"].keys() == {*shape_keys(), "name", "host_links", "fabric_links", "links"}


QUANTITIES = {
    "rate": (rate_bps, rate_text),
    "size": (size_bytes, size_text),
    "share": (share, share_text),
    "time": (duration_ns, duration_text),
}


@pytest.mark.parametrize("kind", QUANTITIES)
@given(data=st.data())
def test_patterns_of_the_schema_are_what_quantities_are_read_by(kind: str, data: st.DataObject) -> None:
    read, write = QUANTITIES[kind]
    pattern = SCHEMA["$defs"][kind]["pattern"]
    words = st.from_regex(pattern, fullmatch=True) | st.text("0123456789.kKmMgGiIbBtT/s% \u212a\u0661", max_size=12)
    text = data.draw(words).strip()
    matches = re.search(pattern, text) is not None
    if not matches or (kind == "share" and float(text.rstrip("%")) > 100):
        with pytest.raises(CallerError):
            read(text)
    else:
        assert read(write(read(text))) == pytest.approx(read(text), abs=1e-6)


@given(st.integers(0, 10**13), st.integers(0, 10**6))
def test_quantities_are_written_as_they_are_read(count: int, millionths: int) -> None:
    assert size_bytes(size_text(count)) == count
    assert rate_bps(rate_text(count)) == count
    assert share(share_text(millionths / 10**6)) == millionths / 10**6


@pytest.mark.parametrize(
    ("text", "value"),
    [("1gbit", 10**9), ("2.3Gbit", 2_300_000_000), ("800 kbit/s", 800_000), ("100bit", 100), ("1tbit", 10**12)],
)
def test_rates(text: str, value: int) -> None:
    assert rate_bps(text) == value


# ------------------------------------------------------------------ schema and loader


def mostly(good: list[Any], bad: list[Any]) -> st.SearchStrategy[Any]:
    """One of `good` but for once in thirty: of documents with many keys a fair share is to be right in all of them."""
    return st.integers(0, 29).flatmap(lambda chance: st.sampled_from(bad if chance == 29 else good))


def one_in(times: int, otherwise: st.SearchStrategy[Any], rare: list[Any]) -> st.SearchStrategy[Any]:
    return st.integers(1, times).flatmap(lambda chance: st.sampled_from(rare) if chance == times else otherwise)


link_values = {
    "rate": mostly(["1gbit", "0.5 Mbit", 0, 200_000_000], ["1Gbps", "", -1, None, True, 1.5]),
    "queue": mostly(["400KB", "64KiB", 0, 65536, "400 kB", "4.5"], ["x", -1, [], "1%"]),
    "ecn_at": mostly(["100KB", 1000, "0"], ["1%", -0.5]),
    "trim_at": mostly(["200KB", 150_000.0], ["2e5", {}]),
    "trim_to": mostly(["256", 128, 0, "1KB"], ["x", -1, 1.5]),
    "trim_dscp": mostly([48, 0, 12.0], [64, -1, "48", 1.5]),
    "trim_dscp_lasthop": mostly([50, 63], [64, None]),
    "loss": mostly(["1%", "0%", ".5%", "100%", "101%"], [0.01, "1", 1]),
    "duplicate": mostly(["0.001%", "50%"], [50, None]),
    "corrupt": mostly(["0.1%"], ["-1%", False]),
    "delay": mostly(["200us", "5ms", 0, 1_000_000, "1.5 ms"], ["5", "1m", -1, None, 0.5]),
    "jitter": mostly(["100us", "0ns", 2000.0], ["x", True, "1%"]),
    "reorder": mostly(["5%", "0%"], [0.05, "5"]),
    "mtu": mostly([1500, 0, 1280, 9000.0], [65_536, -1, "1500", 1.5]),
}
impairments = one_in(
    40,
    st.fixed_dictionaries({}, optional=dict[str, st.SearchStrategy[Any]](link_values)),
    [None, [], "1gbit", 3, {"speed": "1gbit"}, {"toward": {}}],
)
ends = st.sampled_from(["h0", "p0l0", "p0s1", "p9s9", "1", "", "on"])
towards = one_in(20, st.dictionaries(ends, impairments, max_size=2), [None, "h0", ["h0"]])
overrides = st.builds(
    lambda said, toward: {**said, "toward": toward} if isinstance(said, dict) else said, impairments, towards
)
link_names = st.sampled_from(["h0-p0l0", "p0l0-p0s1", "p0s1-p0l0", "p9l9-p9s9", "p0l0", "12:30", "null"])
counts = mostly([1, 2, 3, 16, 2.0], [257, 0, -1, 2.5, True, "2", None, 10**30, [2]])
documents = st.fixed_dictionaries(
    {},
    optional={
        "name": mostly(
            ["mrc", "a" * 40, "no", "0x10", "2026-01-01", "1_0", "1e3", "12"], ["a" * 41, "", "x y", 7, None, True]
        ),
        "mode": mostly(["srv6", "srv6-srh", "stev", "ecmp"], ["SRV6", "", None, 1]),
        "planes": counts,
        "leaves": counts,
        "spines": counts,
        "hosts_per_leaf": counts,
        "mtu": mostly([1280, 1500, 4400.0, 65535], [65536, 1279, "1500", None]),
        "block": mostly(
            ["5f00:0::/32", "fcbb:bb01::/32", "fd4d:5243::/32", "::/32", "5f00::1/32"],
            ["5f00::/33", "5f00", 0x5F000000],
        ),
        "host_links": impairments,
        "fabric_links": impairments,
        "links": one_in(20, st.dictionaries(link_names, overrides, max_size=2), [None, [], "p0l0-p0s1"]),
    },
)
documents = st.one_of(
    documents,
    documents,
    documents,
    documents.map(lambda each: {**each, "Planes": 2}),
    documents.map(lambda each: {**each, "hosts": 2}),
)


def outcome(text: str) -> Description | str | None:
    """The description; None when the structure is refused; the error when it is what the text means that is."""
    try:
        file = TopologyFile.parsed(text)
    except FileProblems:
        return None
    try:
        return file.description()
    except FileProblems as error:
        return str(error)


@settings(max_examples=draws(75))
@given(documents, st.booleans())
def test_what_the_loader_takes_is_what_the_schema_takes(document: dict[str, Any], flow: bool) -> None:
    found = outcome(yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True))
    assert (found is not None) == VALIDATOR.is_valid(document)


good_quantities = {
    "rate": st.integers(10**5, 10**12),
    "queue": st.just(200_000_000),
    "ecn_at": st.integers(1, 10**6),
    "trim_at": st.integers(10**6 + 1, 10**8),
    "trim_to": st.integers(64, 65_535),
    "trim_dscp": st.integers(0, 63),
    "trim_dscp_lasthop": st.integers(0, 63),
    "loss": st.integers(1, 10**6).map(lambda each: share_text(each / 10**6)),
    "duplicate": st.integers(1, 10**6).map(lambda each: share_text(each / 10**6)),
    "corrupt": st.integers(1, 10**6).map(lambda each: share_text(each / 10**6)),
}
good_impairments = st.fixed_dictionaries(
    {"rate": good_quantities.pop("rate")}, optional=dict[str, st.SearchStrategy[Any]](good_quantities)
)
shapes = st.fixed_dictionaries(
    {"planes": st.integers(1, 2), "leaves": st.integers(1, 2), "spines": st.integers(1, 3)},
    optional={"hosts_per_leaf": st.integers(1, 2), "mode": st.sampled_from(FORWARDING_MODES)},
)


@given(shapes, good_impairments, good_impairments, st.data())
def test_what_both_take_means_what_it_says(
    shape: dict[str, Any], host_links: dict[str, Any], fabric_links: dict[str, Any], data: st.DataObject
) -> None:
    clos = Clos(**shape)
    link = data.draw(st.sampled_from(clos.links))
    toward = data.draw(st.sampled_from(link.ends))
    both_ways, one_way = data.draw(good_impairments), data.draw(good_impairments)
    document = {
        **shape,
        "host_links": host_links,
        "fabric_links": fabric_links,
        "links": {link.name: {**both_ways, "toward": {toward: one_way}}},
    }
    assert VALIDATOR.is_valid(document)
    found = outcome(yaml.safe_dump(document))
    assert isinstance(found, Description)
    assert found.shape == clos
    assert len(found.impairments) == 2 * len(clos.links)
    for each in clos.links:
        for end in each.ends:
            expected = dict(host_links if each.lower.startswith("h") else fabric_links)
            if each == link:
                expected |= both_ways | (one_way if end == toward else {})
            got = found.impairments[each.name, end]
            for key, value in expected.items():
                number = share(value) if isinstance(value, str) else value
                assert getattr(got, LINK_KEYS[key].field) == number, (each, end, key)
            for key in LINK_KEYS.keys() - expected.keys():
                assert getattr(got, LINK_KEYS[key].field) == 0


def test_an_empty_file_is_the_default_fabric() -> None:
    assert outcome("") == outcome("# nothing\n") == outcome("{}") == Description()


def test_no_rate_on_one_link_takes_its_queue_too() -> None:
    text = "fabric_links: {rate: 1gbit, queue: 400KB, ecn_at: 100KB, loss: 1%}\nlinks:\n  p0l0-p0s1: {rate: 0}\n"
    found = outcome(text)
    assert isinstance(found, Description)
    free = found.impairments["p0l0-p0s1", "p0s1"]
    assert (free.rate_bps, free.queue_bytes, free.ecn_at_bytes, free.loss) == (0, 0, 0, 0.01)
    assert found.impairments["p0l0-p0s0", "p0s0"].queue_bytes == 400_000


# ------------------------------------------------------------------ the documentation

EXAMPLES = sorted((DOCS / "topologies").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_load_under_their_own_name(path: Path) -> None:
    file = TopologyFile.read(path)
    assert file.name == path.stem
    assert VALIDATOR.is_valid(yaml.safe_load(path.read_text()))
    file.description()


def test_the_example_of_every_key_has_every_key() -> None:
    said = yaml.safe_load((DOCS / "topologies" / "every-key.yaml").read_text())
    assert said.keys() == SCHEMA["properties"].keys()
    assert said["fabric_links"].keys() == LINK_KEYS.keys()
    for key in shape_keys():
        assert said[key] == SCHEMA["properties"][key]["default"], key


def test_the_page_says_every_key_and_shows_the_example() -> None:
    page = (DOCS / "topology.md").read_text()
    for key in (*SCHEMA["properties"], *SCHEMA["$defs"]["link"]["properties"]):
        assert f"`{key}`" in page, key
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert (DOCS / "topologies" / "every-key.yaml").read_text() in blocks
    for block in blocks:
        assert isinstance(outcome(block), Description), block


def test_errors_on_the_page_are_errors_of_the_loader() -> None:
    page = (DOCS / "topology.md").read_text()
    shown = re.findall(r"^<!-- wrong -->\n```\n(.*?)^```\n+```\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(shown) >= 1
    for text, errors in shown:
        with pytest.raises(FileProblems) as caught:
            TopologyFile.parsed(text, "fabric.yaml").description()
        assert str(caught.value) == errors.rstrip("\n")
