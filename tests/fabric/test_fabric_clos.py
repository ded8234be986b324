# SPDX-License-Identifier: BSD-2-Clause
"""What a fabric's description may say of mode and block, and that the simulator follows it."""

from __future__ import annotations

import pytest

from mrc.endpoint.config import QpConfig
from mrc.errors import CallerError
from mrc.fabric import Clos, Description, Impairment
from mrc.fabric.block import block_text, parse_block
from mrc.fabric.room import largest_path_mtu
from mrc.sim.fabric import SimFabric


@pytest.mark.parametrize("block", [0x1FFFFFFF, 0xFE000000, 0xFD4D5243, -1, 1 << 32])
def test_a_block_in_nobodys_or_other_peoples_addresses_is_refused(block: int) -> None:
    with pytest.raises(CallerError, match="block must be a /32"):
        Clos(block=block)


@pytest.mark.parametrize(("block", "text"), [(0x5F000000, "5f00::/32"), (0xFCBBBB01, "fcbb:bb01::/32")])
def test_a_block_is_written_as_a_prefix(block: int, text: str) -> None:
    assert block_text(Clos(block=block).block) == text
    assert parse_block(text) == block


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(CallerError, match="mode must be one of srv6, srv6-srh, stev, ecmp, got 'mpls'"):
        Clos(mode="mpls")


def test_the_simulator_forwards_in_the_block_it_is_told() -> None:
    fabric = SimFabric(Clos(planes=1, spines=2, block=0xFCBBBB01), seed=1)
    qp, _ = fabric.connect("h0", "h1", QpConfig(path_mtu=1024))
    transfer = fabric.write(qp, 1 << 16)
    fabric.run(10**9, lambda: transfer.done)
    assert transfer.done


@pytest.mark.parametrize("mode", ["srv6-srh", "stev", "ecmp"])
def test_the_simulator_refuses_modes_it_does_not_have(mode: str) -> None:
    with pytest.raises(CallerError, match=f"not {mode}"):
        SimFabric(Clos(mode=mode))


@pytest.mark.parametrize(
    ("mode", "least"),
    # By hand: 40 outer, 128 kept for headers, 24 SRH; 40 IPv6, 8 UDP, 12 BTH, 28 extensions, 4 ICRC.
    [("srv6", 40 + 128), ("srv6-srh", 40 + 128 + 24), ("stev", 92), ("ecmp", 92)],
)
def test_the_path_mtu_leaves_room_for_the_headers_of_the_mode(mode: str, least: int) -> None:
    assert largest_path_mtu(Clos(mode=mode, mtu=4096 + least)) == 4096
    assert largest_path_mtu(Clos(mode=mode, mtu=4096 + least - 1)) == 2048
    assert largest_path_mtu(Clos(mode=mode, mtu=1280)) == 1024


def test_a_description_refuses_directions_its_fabric_lacks() -> None:
    lossy = Impairment(loss=0.1)
    for direction in (("p0l0-p0s9", "p0s9"), ("p0l0-p0s1", "p0s2"), ("p0s1-p0l0", "p0l0")):
        with pytest.raises(CallerError, match="no direction"):
            Description(Clos(), {direction: lossy})


def test_descriptions_are_equal_whether_or_not_they_name_what_is_whole() -> None:
    assert Description(Clos(), {("p0l0-p0s1", "p0s1"): Impairment()}) == Description(Clos())


@pytest.mark.parametrize(
    "broken",
    [
        {"topology": {"planes": 2, "colour": 1}},
        {"topology": {"planes": 0}},
        {},
        {"topology": {}, "impairments": [{"toward": "p0s1"}]},
        {"topology": {}, "impairments": [{"link": "p0l0-p0s1", "toward": "p0s1", "loss": 2}]},
    ],
)
def test_what_is_no_description_is_not_read_as_one(broken: dict[str, object]) -> None:
    with pytest.raises((CallerError, KeyError, TypeError)):
        Description.from_json(broken)
