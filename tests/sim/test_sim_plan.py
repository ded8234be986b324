# SPDX-License-Identifier: BSD-2-Clause
"""What fabrics take, held to the figures of the MRC papers and to the formulas of fat trees."""

from __future__ import annotations

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.sim.plan import Design, Hardware, design, fewest_tiers, most_hosts, plan

OF_THE_PAPER = Hardware()  # NICs of 800 Gbit/s, switches of 51.2 Tbit/s


def test_two_tiers_of_eight_planes_hold_131072_hosts() -> None:
    """[P1]: 51.2 Tbit/s are 512 ports of 100 Gbit/s. A leaf has 256 of them down and 256 up, a spine reaches 512
    leaves: 256 x 512 hosts."""
    found = fewest_tiers(131_072, 8, OF_THE_PAPER)
    assert (found.tiers, found.switch_ports, found.hosts_per_leaf, found.most_hosts) == (2, 512, 256, 131_072)
    assert found.switches == (8 * 512, 8 * 256)
    assert found.links == (8 * 131_072, 8 * 131_072)
    assert found.optics == 2 * 2 * 131_072  # two levels of 800 Gbit/s a host, a module at each end
    assert found.hops == 3
    assert found.paths == 8 * 256
    assert found.room == 131_072


def test_one_host_more_needs_a_third_tier() -> None:
    assert fewest_tiers(131_073, 8, OF_THE_PAPER).tiers == 3


def test_one_plane_of_the_same_switches_needs_three_tiers_for_half_of_them() -> None:
    """64 ports of 800 Gbit/s: 64^3 / 4 = 65,536 hosts on three tiers."""
    found = fewest_tiers(65_536, 1, OF_THE_PAPER)
    assert (found.tiers, found.most_hosts, found.switch_count, found.hops) == (3, 65_536, 5 * 64**2 // 4, 5)
    assert fewest_tiers(65_537, 1, OF_THE_PAPER).tiers == 4


def test_the_papers_ratios() -> None:
    """[P1]: 3/5 of the switches and 2/3 of the optics of three tiers."""
    found = plan(65_536)
    several, single = found.designs
    assert found.yardstick is single
    assert several.switch_count / single.switch_count == 3 / 5
    assert several.optics / single.optics == 2 / 3


def test_the_ratios_hold_for_each_host_where_three_tiers_do_not_reach() -> None:
    found = plan(131_072)
    assert found.yardstick.hosts == 65_536
    assert found.switch_ratio(found.designs[0]) == pytest.approx(3 / 5)
    assert found.optics_ratio(found.designs[0]) == pytest.approx(2 / 3)
    assert found.switch_ratio(found.designs[1]) == pytest.approx(7 / 5)  # four tiers of one plane


def test_what_a_failure_costs() -> None:
    """[P1, 2]: a port is 12 % of a NIC of eight; a cable above a leaf is 0.4 % in a plane of 100 Gbit/s links, 3 % in
    one of 800 Gbit/s links."""
    several, single = plan(65_536).designs
    assert several.port_share == 0.125
    assert several.uplink_share == pytest.approx(0.004, abs=0.0002)
    assert single.uplink_share == pytest.approx(0.03, abs=0.002)


@pytest.mark.parametrize("ports", [4, 8, 16, 64, 128])
def test_full_fabrics_are_fat_trees(ports: int) -> None:
    """k^2/2 hosts under 3k/2 switches, k^3/4 hosts under 5k^2/4 switches."""
    hardware = Hardware(nic_bps=10**11, switch_bps=ports * 10**11, optic_bps=10**11)
    two, three = (design(most_hosts(tiers, 1, hardware), 1, tiers, hardware) for tiers in (2, 3))
    assert (two.hosts, two.switch_count) == (ports**2 // 2, 3 * ports // 2)
    assert (three.hosts, three.switch_count) == (ports**3 // 4, 5 * ports**2 // 4)
    assert (two.optics, three.optics) == (4 * two.hosts, 6 * three.hosts)


def ports_in_use(found: Design) -> list[float]:
    """The links that end at each tier's switches, over their ports."""
    below = found.links
    above = (*found.links[1:], 0)
    return [
        (down + up) / (count * found.switch_ports) for count, down, up in zip(found.switches, below, above, strict=True)
    ]


@settings(max_examples=draws(50), deadline=None)
@given(
    hosts=st.integers(2, 200_000),
    planes=st.sampled_from([1, 2, 4, 8, 16]),
    oversubscription=st.sampled_from([1.0, 1.5, 2.0, 3.0, 4.0]),
)
def test_every_design_can_be_cabled(hosts: int, planes: int, oversubscription: float) -> None:
    found = fewest_tiers(hosts, planes, OF_THE_PAPER, oversubscription)
    assert found.room >= hosts
    assert all(used <= 1 for used in ports_in_use(found))
    assert found.links[0] == planes * hosts
    for level in found.links[1:]:
        assert level * oversubscription >= planes * hosts * 0.999
    assert found.switches[0] * found.hosts_per_leaf >= planes * hosts


def test_latency_is_what_its_parts_add_up_to() -> None:
    """Two tiers: 3 switches of 600 ns, 2 x 3 m + 2 x 50 m of cable at 5 ns/m, 4096 bytes at 100 Gbit/s once."""
    assert design(131_072, 8, 2, Hardware()).latency_ns == pytest.approx(3 * 600 + 106 * 5 + 327.68)
    whole = design(131_072, 8, 2, Hardware(store_and_forward=True))
    assert whole.latency_ns == pytest.approx(3 * 600 + 106 * 5 + 4 * 327.68)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"hosts": 1}, "hosts must be 2 to"),
        ({"hosts": 2, "planes": 0}, "planes must be 1 to 64"),
        ({"hosts": 2, "oversubscription": 0.5}, "oversubscription must be at least 1"),
        ({"hosts": 10_000, "hardware": Hardware(switch_bps=10**12)}, "4 tiers of these switches hold 1,250 hosts"),
        ({"hosts": 100, "hardware": Hardware(switch_bps=10**11)}, "at least 4 are needed"),
        ({"hosts": 100, "oversubscription": 1e9}, "leaves a leaf of 512 ports none that lead up"),
    ],
)
def test_what_cannot_be_planned_says_why(given: dict[str, object], says: str) -> None:
    with pytest.raises(CallerError, match=says):
        plan(**given)  # type: ignore[arg-type]
