# SPDX-License-Identifier: BSD-2-Clause
"""EV formats and profiles: which EVs a QP uses and what its packets carry (wire.md section 10; api.md, Controller)."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from random import Random
from typing import Any

import pytest
from hand_peer import chosen_evs
from hypothesis import given
from hypothesis import strategies as st

from mrc.endpoint.config import PathConfig
from mrc.endpoint.paths.addressing import NO_SPINE, Path, PlanePair, stev_paths, udp_paths
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.errors import CallerError
from mrc.wire.entropy import EvField, EvMode
from mrc.wire.usid import UsidTemplate

UDP, STEV, SRV6 = EvFormat(EvMode.UDP), EvFormat(EvMode.STEV), EvFormat(EvMode.SRV6)
AUTO, EXPLICIT, GENERATED = EvProfileMode.AUTO, EvProfileMode.EXPLICIT, EvProfileMode.GENERATED


def planes(count: int = 2, *, ipv4: bool = False, uplinks: int = 0) -> list[PlanePair]:
    """Planes of two ordinary hosts, or where `uplinks` says so of hosts 0 and 1 on leaves 0 and 1 of a fabric."""
    text = "10.{}.0.{}" if ipv4 else "fd00:{:x}::{}"
    usids = UsidTemplate(0, 1, 1) if uplinks else None
    return [PlanePair(p, p, text.format(p, 1), text.format(p, 2), uplinks, usids) for p in range(count)]


def made(profile: EvProfile, pairs: list[PlanePair], seed: int = 1, **more: Any) -> list[Path]:
    return profile.paths(pairs, Random(seed), **more)


def source_port(path: Path) -> int:
    return int.from_bytes(bytes(path.template[40:42]), "big")


def flow_label(path: Path) -> int:
    return int.from_bytes(bytes(path.template[:4]), "big") & 0xFFFFF


def by_plane(paths: list[Path]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for path in paths:
        found.setdefault(path.plane, []).append(path.ev)
    return found


# ---------------------------------------------------------------------- formats


def test_a_format_of_nonsense() -> None:
    with pytest.raises(CallerError, match="belongs to SRV6"):
        EvFormat(EvMode.UDP, srh=True)
    with pytest.raises(CallerError, match="at least 1 bit"):
        EvFormat(EvMode.STEV, (8, 0))


@pytest.mark.parametrize("widths", [(9,), (8, 5), (8, 4, 20, 1), (1, 8)])
def test_fields_a_format_has_no_room_for(widths: tuple[int, ...]) -> None:
    fields = tuple(EvField(width) for width in widths)
    with pytest.raises(CallerError, match=r"the format has fields of 8 \+ 4|carries 32"):
        EvProfile(GENERATED, EvFormat(EvMode.STEV, (8, 4)), count=1, fields=fields)


def test_fields_wider_than_the_mode_carries() -> None:
    with pytest.raises(CallerError, match="17 bits, UDP carries 16"):
        EvProfile(GENERATED, UDP, count=1, fields=(EvField(17, mask=1),))


# ---------------------------------------------------------------------- where the EV goes


def test_over_ipv4_an_ev_has_sixteen_bits() -> None:
    """MRC-EV-07."""
    plane = planes(1, ipv4=True)[0]
    (path,) = stev_paths(plane, [(0xFFFF, 255)])
    assert source_port(path) == path.ev == 0xFFFF
    assert bytes(path.destination) == struct.pack("=HH4s20x", socket.AF_INET, 0, bytes((10, 0, 0, 2)))
    for make in (lambda: stev_paths(plane, [(0x10000, 1)]), lambda: udp_paths(plane, [0x10000])):
        with pytest.raises(CallerError, match="does not fit 16 bits"):
            make()


def test_ends_of_different_ip_versions() -> None:
    with pytest.raises(CallerError, match="different IP versions"):
        udp_paths(PlanePair(0, 0, "10.0.0.1", "fd00::1", 0), [1])


# ---------------------------------------------------------------------- AUTO


@pytest.mark.parametrize(("count", "each"), [(1, 128), (2, 64), (3, 42), (16, 8)])
def test_auto_in_udp_mode_draws_ports_that_rocev2_uses(count: int, each: int) -> None:
    """MRC-PATH-02: an equal number per plane, all different, 128 as far as they can be shared out."""
    paths = made(EvProfile.auto(EvMode.UDP), planes(count, ipv4=True))
    assert Counter(path.plane for path in paths) == dict.fromkeys(range(count), each)
    assert len({path.ev for path in paths}) == len(paths)
    assert all(0xC000 <= source_port(path) <= 0xFFFF for path in paths)


def test_auto_keeps_about_a_hundred_active() -> None:
    """MRC-PATH-02."""
    profile = EvProfile.auto(EvMode.UDP)
    config = profile.path_config(PathConfig())
    assert config.active_count == 100
    chosen = PathSet(made(profile, planes(2)), config, Random(1))
    used = Counter(chosen_evs(chosen, 1000))
    assert len(used) == 100
    assert set(Counter(int(chosen.port[index]) for index in used).values()) == {50}
    assert profile.path_config(PathConfig(active_count=7)).active_count == 7
    assert EvProfile.auto(EvMode.SRV6).path_config(PathConfig()) == PathConfig()


def test_auto_in_srv6_mode_is_every_distinct_path() -> None:
    """Plane(8) zero(8) uplink(16)."""
    paths = made(EvProfile.auto(EvMode.SRV6), planes(2, uplinks=4))
    assert [path.ev for path in paths] == [0, 1, 2, 3, 1 << 24, 1 << 24 | 1, 1 << 24 | 2, 1 << 24 | 3]


def test_auto_in_stev_mode_names_each_uplink_in_the_first_field() -> None:
    """The most significant field is the first hop; the plane in the last bits keeps EVs apart."""
    paths = made(EvProfile.auto(EvMode.STEV, (4, 4, 8)), planes(2, uplinks=3))
    assert [(path.ev, path.spine) for path in paths] == [
        (0x0000, 0), (0x1000, 1), (0x2000, 2), (0x0001, 0), (0x1001, 1), (0x2001, 2),
    ]  # fmt: skip
    with pytest.raises(CallerError, match="cannot tell 17 uplinks"):
        made(EvProfile.auto(EvMode.STEV, (4, 4, 8)), planes(2, uplinks=17))


def test_auto_in_stev_mode_without_a_known_fabric_draws_whole_evs() -> None:
    paths = made(EvProfile.auto(EvMode.STEV), planes(2))
    assert len({path.ev for path in paths}) == 128
    assert max(path.ev for path in paths) >> 16
    assert {path.spine for path in paths} == {NO_SPINE}


def test_auto_takes_what_there_is() -> None:
    paths = made(EvProfile.auto(EvMode.STEV, (2, 1)), planes(2))
    assert sorted(path.ev for path in paths) == list(range(8))
    assert sorted(path.spine for path in paths) == [0, 0, 1, 1, 2, 2, 3, 3]


# ---------------------------------------------------------------------- EXPLICIT


def test_explicit_evs_are_dealt_to_the_planes_in_turn() -> None:
    profile = EvProfile(EXPLICIT, UDP, evs=(50000, 50001, 50002, 50003))
    assert profile.count == 4
    assert by_plane(made(profile, planes(2))) == {0: [50000, 50002], 1: [50001, 50003]}


def test_explicit_evs_in_srv6_mode_name_their_plane() -> None:
    evs = (1 << 24 | 3, 2, 0)
    assert by_plane(made(EvProfile(EXPLICIT, SRV6, evs=evs), planes(2, uplinks=4))) == {0: [2, 0], 1: [1 << 24 | 3]}
    assert by_plane(made(EvProfile(EXPLICIT, SRV6, evs=evs), planes(1, uplinks=4))) == {0: [2, 0]}


@pytest.mark.parametrize(
    ("ev", "says"),
    [(4, "plane 0 has 4 paths, an EV names number 4"), (1 << 24, "no EV of the profile"), (1 << 16, "not of the form")],
)
def test_explicit_evs_of_paths_that_do_not_exist(ev: int, says: str) -> None:
    with pytest.raises(CallerError, match=says):
        made(EvProfile(EXPLICIT, SRV6, evs=(ev,)), planes(1, uplinks=4))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({"mode": EXPLICIT}, "is given its EVs"),
        ({"mode": AUTO, "evs": (1,)}, "is given its EVs"),
        ({"mode": AUTO, "count": 8}, "leave count out"),
        ({"mode": EXPLICIT, "evs": (1, 1)}, "must differ"),
        ({"mode": EXPLICIT, "evs": (1, 2), "count": 3}, "a profile of 3 EVs is given 2"),
        ({"mode": EXPLICIT, "evs": (1, 2), "min_active": 3}, "min_active 3 is more than the 2"),
        ({"mode": EXPLICIT, "evs": (1, 2), "active_count": 3}, "active_count 3 is more than the 2"),
        ({"mode": AUTO, "count": 0}, "count must be at least 1"),
        ({"mode": GENERATED, "count": 1}, "is given fields"),
        ({"mode": GENERATED, "fields": (EvField(4, mask=3),)}, "needs a count"),
        ({"mode": GENERATED, "fields": (EvField(4, mask=3),), "count": 5}, "allow 4 EVs, 5 are asked for"),
    ],
)
def test_profiles_of_nonsense(what: dict[str, Any], says: str) -> None:
    with pytest.raises(CallerError, match=says):
        EvProfile(**{"format": UDP, **what})


# ---------------------------------------------------------------------- GENERATED


@given(st.lists(st.tuples(st.integers(1, 6), st.data()), min_size=1, max_size=3), st.integers(1, 4), st.integers(0, 9))
def test_generated_evs_stay_within_their_bounds(shape: list[Any], count: int, seed: int) -> None:
    """MRC-EV-10, MRC-EV-11, worked out by trying every bit pattern of the whole width."""
    fields = []
    for width, data in shape:
        mask = data.draw(st.integers(0, (1 << width) - 1))
        most = (1 << mask.bit_count()) - 1
        low = data.draw(st.integers(0, most))
        high = data.draw(st.integers(low, most))
        fields.append(EvField(width, data.draw(st.integers(0, (1 << width) - 1)) & ~mask, mask, low, high))

    def allowed(value: int) -> bool:
        for field in reversed(fields):
            part, value = value & (1 << field.width) - 1, value >> field.width
            bits = [part >> at & 1 for at in range(field.width - 1, -1, -1) if field.mask >> at & 1]
            number = int("".join(map(str, bits)) or "0", 2)
            if part & ~field.mask != field.init_val or not field.min_val <= number <= (
                field.max_val or (1 << len(bits)) - 1
            ):
                return False
        return True

    every = {value for value in range(1 << sum(field.width for field in fields)) if allowed(value)}
    wanted = count * max(1, len(every) // 4)
    if wanted > len(every):
        wanted = count if count <= len(every) else 0
    if not wanted:
        return
    profile = EvProfile(GENERATED, STEV, count=wanted, fields=tuple(fields))
    found = [path.ev for path in made(profile, planes(count), seed)]
    assert len(found) == len(set(found)) == wanted
    assert set(found) <= every


def test_a_count_the_planes_cannot_share_out() -> None:
    profile = EvProfile(GENERATED, UDP, count=5, fields=(EvField(16, mask=0xFFFF),))
    with pytest.raises(CallerError, match="count 5 must be a multiple of the 2 planes"):
        made(profile, planes(2))


def test_generated_evs_in_srv6_mode_are_a_random_subset_of_each_planes() -> None:
    """The fields expand to plane(8) zero(8) uplink(16)."""
    fields = (EvField(8, mask=0x0F), EvField(8), EvField(16, mask=0x7, max_val=5))
    profile = EvProfile(GENERATED, SRV6, count=8, fields=fields)
    drawn = [by_plane(made(profile, planes(2, uplinks=6), seed)) for seed in range(4)]
    for evs in drawn:
        assert {plane: len(set(found)) for plane, found in evs.items()} == {0: 4, 1: 4}
        assert all(ev >> 24 == plane and ev & 0xFFFFFF < 6 for plane, found in evs.items() for ev in found)
    assert len({str(evs) for evs in drawn}) > 1
    with pytest.raises(CallerError, match="has 5 paths, an EV names number 5"):
        made(profile, planes(2, uplinks=5))
    few = EvProfile(GENERATED, SRV6, count=16, fields=fields)
    with pytest.raises(CallerError, match="plane 0 has 6 EVs in this profile, each plane is to have 8"):
        made(few, planes(2, uplinks=6))


def test_a_profile_needs_planes() -> None:
    with pytest.raises(CallerError, match="at least one plane"):
        made(EvProfile.auto(EvMode.UDP), [])
