# SPDX-License-Identifier: BSD-2-Clause
"""Deny lists: the EVs of a faulty part are those whose packets walk over it, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_fabric import walk

from mrc.fabric import Clos
from mrc.map.deny import deny_list
from mrc.wire.usid import UsidTemplate, ev_of_path


def fault(kind: str, name: str, plane: int, toward: list[str] | None = None, state: str = "lossy") -> dict[str, Any]:
    loss = {"state": state, "loss_percent": 5.123}
    return {"kind": kind, "name": name, "plane": plane, "toward": toward or [], **loss}


def denied(document: dict[str, Any], endpoint: int, peer: int, plane: int, ev: int) -> bool:
    """As docs/control.md says: what is left out stands for everyone."""
    return any(
        entry.get("endpoint", f"h{endpoint}") == f"h{endpoint}"
        and entry.get("peer", f"h{peer}") == f"h{peer}"
        and entry["plane"] == plane
        and int(entry["ev"], 16) == ev
        for entry in document["deny"]
    )


def paths(clos: Clos) -> Iterator[tuple[int, int, int, int, set[tuple[str, str]]]]:
    """(from host, to host, plane, uplink, what its packets pass), by the uSID lists that endpoints make."""
    for source in range(clos.host_count):
        for target in range(clos.host_count):
            if source != target:
                leaves = clos.leaf_of_host(source), clos.leaf_of_host(target)
                for plane in range(clos.planes):
                    for uplink in range(clos.spines):
                        usids = UsidTemplate(*leaves, target).usids(plane, uplink)
                        yield source, target, plane, uplink, set(walk(source, usids))


def test_the_list_is_what_the_controller_reads() -> None:
    """Keys and values of docs/control.md, to the letter."""
    made = deny_list(Clos(2, 2, 4), [fault("link", "p0l0-p0s2", 0, ["p0s2"])], "mrc", 77)
    assert json.loads(json.dumps(made)) == {
        "made_unix_ns": 77,
        "fabric": "mrc",
        "faults": ["p0l0-p0s2"],
        "deny": [{"endpoint": "h0", "plane": 0, "ev": "0x00000002", "reason": "p0l0-p0s2 loses 5.1 %"}],
    }
    assert deny_list(Clos(), [], "mrc", 0)["deny"] == []


@settings(max_examples=draws(13))
@given(st.integers(1, 3), st.integers(2, 4), st.integers(1, 4), st.integers(1, 2), st.data())
def test_denied_is_what_passes_the_faulty_part(
    planes: int, leaves: int, spines: int, per_leaf: int, data: st.DataObject
) -> None:
    clos = Clos(planes, leaves, spines, per_leaf)
    plane = data.draw(st.integers(0, planes - 1))
    leaf, spine = data.draw(st.integers(0, leaves - 1)), data.draw(st.integers(0, spines - 1))
    host = data.draw(st.integers(0, clos.host_count - 1))
    link = f"p{plane}l{leaf}-p{plane}s{spine}"
    kind, name, toward = data.draw(
        st.sampled_from(
            [
                ("link", link, []),
                ("link", link, [f"p{plane}s{spine}"]),
                ("link", link, [f"p{plane}l{leaf}"]),
                ("spine", f"p{plane}s{spine}", []),
                ("leaf", f"p{plane}l{leaf}", []),
                ("host-port", f"h{host}-p{plane}l{clos.leaf_of_host(host)}", []),
            ]
        )
    )
    made = deny_list(clos, [fault(kind, name, plane, toward)], "mrc", 0)
    for source, target, on, uplink, passed in paths(clos):
        is_denied = denied(made, source, target, on, ev_of_path(on, uplink))
        meets = any(part == name and (not toward or end in toward) for part, end in passed)
        if kind == "spine" and clos.leaf_of_host(source) == clos.leaf_of_host(target):
            continue  # between hosts of one leaf the EV's uplink plays no part
        assert is_denied == meets, (source, target, on, uplink)


def test_a_plane_that_is_down_is_denied_to_everybody() -> None:
    made = deny_list(Clos(2, 2, 3), [fault("plane", "plane:1", 1, state="down")], "mrc", 0)
    assert [(each["plane"], each["ev"], each["reason"]) for each in made["deny"]] == [
        (1, f"0x0100000{spine}", "plane:1 is down") for spine in range(3)
    ]


def test_one_path_over_two_faults_is_denied_once() -> None:
    faults = [fault("spine", "p0s1", 0), fault("plane", "plane:0", 0)]
    made = deny_list(Clos(1, 2, 2), faults, "mrc", 0)
    assert sorted(each["ev"] for each in made["deny"]) == ["0x00000000", "0x00000001"]


def test_the_largest_fabric_fits_what_the_controller_takes() -> None:
    clos = Clos(1, 16, 16, 16)
    made = deny_list(clos, [fault("link", "p0l3-p0s7", 0)], "mrc", 0)
    assert 0 < len(made["deny"]) <= 65536
    with pytest.raises(ValueError, match="more than a deny list holds"):
        deny_list(clos, [fault("link", f"p0l3-p0s{spine}", 0) for spine in range(16)], "mrc", 0)
