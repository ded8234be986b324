# SPDX-License-Identifier: BSD-2-Clause
"""Wire profiles of two ends: what has to be the same is refused by name, what may differ carries a transfer."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.errors import PeerError
from mrc.fabric import Clos, Fabric
from mrc.fabric.host_view import FabricPort
from mrc.net.negotiation import NodeDescription, QpDescription, peer_of
from mrc.sim import LinkModel, SimFabric
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

FIELDS = {field.name: field.default for field in dataclasses.fields(WireProfile)}
# Another value that the switch can have, for each switch that is neither true nor false.
OTHERS: dict[str, Any] = {
    "udp_port": 4971,
    "accepted_udp_ports": (4791,),
    "tsr1_unit_ns": 1,
    "neth_cc_type": 0,
    "first_port_bit": 1,
    "eeth_op_shift": 4,
    "dscp_no_trim": 1,
    "dscp_trimmable": 5,
    "dscp_trimmable_retx": 9,
    "dscp_trimmed": 13,
    "dscp_trimmed_lasthop": 17,
    "dscp_control": 48,
    "trim_keeps_after_bth": 32,
}
# By wire.md: the UDP port has a rule of its own (section 1); no endpoint looks at spdcid and dpdcid (section 6); any
# cc_type is accepted (section 7); no receiver looks at the UDP checksum (section 9); how much of a packet stays is the
# trimming switch's choice (section 12).
MAY_DIFFER = {
    "udp_port",
    "accepted_udp_ports",
    "neth_cc_type",
    "udp_checksum_zero",
    "trim_keeps_after_bth",
    "dcids_of_data",
}


def changed(name: str) -> WireProfile:
    value = OTHERS.get(name, not FIELDS[name])
    assert value != FIELDS[name]
    return replace(DEFAULT_WIRE_PROFILE, **{name: value})


def host(address: str) -> Fabric:
    return Fabric("host", 0, 1500, (FabricPort(0, "eth0", address, 0, 0),), mode="udp")


def described(wire: WireProfile) -> dict[str, Any]:
    told = json.loads(json.dumps(NodeDescription.of(host("fd00::2"), wire).to_json()))
    assert isinstance(told, dict)
    return told


def connect(ours: WireProfile, theirs: dict[str, Any]) -> None:
    peer_of(host("fd00::1"), NodeDescription.from_json(theirs), QpDescription(99, 5), ours)


@pytest.mark.parametrize("name", FIELDS)
def test_every_switch_is_the_same_at_both_ends_or_may_differ(name: str) -> None:
    other = changed(name)
    for ours, theirs in ((DEFAULT_WIRE_PROFILE, other), (other, DEFAULT_WIRE_PROFILE)):
        if name in MAY_DIFFER:
            connect(ours, described(theirs))
            continue
        with pytest.raises(PeerError) as refused:
            connect(ours, described(theirs))
        values = {json.dumps(getattr(each, name)) for each in (ours, theirs)}
        said = str(refused.value)
        assert f"`{name}` is " in said
        assert all(value in said for value in values), said
        assert "--wire-profile" in said
    connect(other, described(other))


def test_all_that_differs_is_named_at_once() -> None:
    theirs = replace(DEFAULT_WIRE_PROFILE, eeth_op_shift=4, solicited_event_first=False)
    with pytest.raises(PeerError) as refused:
        connect(DEFAULT_WIRE_PROFILE, described(theirs))
    assert str(refused.value) == (
        "the wire profiles of the two ends differ: `solicited_event_first` is true at one end and false at the other, "
        "`eeth_op_shift` is 2 at one end and 4 at the other: give both the same --wire-profile"
    )


def test_of_a_peer_of_another_release_only_the_switches_both_know_are_compared() -> None:
    told = described(DEFAULT_WIRE_PROFILE)
    connect(DEFAULT_WIRE_PROFILE, {**told, "wire": {**told["wire"], "a_switch_of_the_future": 3}})
    del told["wire"]["eeth_op_shift"]
    connect(changed("eeth_op_shift"), told)
    del told["wire"]
    connect(changed("eeth_op_shift"), told)


@pytest.mark.parametrize(
    "malformed", [None, 3, [], "x", {"eeth_op_shift": "4"}, {"eeth_op_shift": None}, {str(n): n for n in range(99)}]
)
def test_what_is_no_wire_profile_is_refused(malformed: object) -> None:
    with pytest.raises(PeerError, match="wire"):
        NodeDescription.from_json({**described(DEFAULT_WIRE_PROFILE), "wire": malformed})


@pytest.mark.parametrize("name", sorted(MAY_DIFFER - {"udp_checksum_zero"}))
def test_what_may_differ_carries_writes_both_ways(name: str) -> None:
    """Losses and trims on the way. An endpoint sends no UDP checksum but 0, so there are no two ends to try."""
    agents = {
        "h0": Endpoint(EndpointConfig(seed=1)),
        "h1": Endpoint(EndpointConfig(seed=2, wire=changed(name))),
    }
    narrow = LinkModel(rate_bps=10**9, delay_ns=1_000, trim_at_bytes=12_000, queue_bytes=60_000, loss=0.002)
    fabric = SimFabric(Clos(2, 2, 2), narrow, seed=3, agents=agents)
    content = np.random.default_rng(4).bytes(300_000)
    for sender, receiver in (("h0", "h1"), ("h1", "h0")):
        qp, _ = fabric.connect(sender, receiver, QpConfig(path_mtu=1024), "fixed")
        done = fabric.write(qp, content)
        assert fabric.run(fabric.now + 10**10, lambda done=done: done.done)  # type: ignore[misc]
        assert done.arrived
