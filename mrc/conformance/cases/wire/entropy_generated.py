# SPDX-License-Identifier: BSD-2-Clause
"""EVs that are generated from the fields of a profile (wire.md section 10)."""

from __future__ import annotations

from mrc.conformance.cases.wire.entropy import expect_evs
from mrc.conformance.cases.wire.entropy_setups import expect_refused, expect_taken
from mrc.conformance.script import Bench, case

ONE_PLANE_ONE_EV = {"evs_per_plane": 1}


@case(
    "MRC-EV-09",
    target_evs=8,
    mode="stev",
    ip=6,
    options={"ev_widths": "8 12 12", "ev_fields": "6:0x31:0x16:1:4 10:0x2F0:0x101:1:2"},
    look_at="which bit of the EV goes to which bit of the mask, and where the fields are put in the format",
)
def an_ev_expands_field_by_field(bench: Bench) -> None:
    """The format has 8, 12 and 12 bits. The first field, 0b110001 with mask 0b010110, is generated from 1 to 4: 0x23,
    0x25, 0x27, 0x31. The second, 0b1011110000 with mask 0b0100000001, from 1 to 2: 0x2f1, 0x3f0. The third is 0."""
    first, second = (0x23, 0x25, 0x27, 0x31), (0x2F1, 0x3F0)
    expect_evs(bench, {high << 24 | middle << 12 for high in first for middle in second})


@case(
    "MRC-EV-10",
    target_evs=8,
    mode="stev",
    ip=6,
    options={"ev_fields": "16:0x4000:0x0011 16:0xC002:0x0100"},
    look_at="how many bits of an EV are generated",
)
def an_ev_has_as_many_bits_as_its_masks(bench: Bench) -> None:
    """The masks have two bits and one: there are eight EVs, all of them in use here, and a profile of sixteen is
    refused."""
    first, second = (0x4000, 0x4001, 0x4010, 0x4011), (0xC002, 0xC102)
    expect_evs(bench, {high << 16 | low for high in first for low in second})
    expect_taken(bench)
    expect_refused(bench, "sixteen EVs of three bits", evs_per_plane=8)


@case(
    "MRC-EV-11",
    target_evs=4,
    mode="stev",
    ip=6,
    options={"evs_per_plane": 2, "ev_fields": "8:0:0xAA:9:10 8:0x40:0x03:1:2 16:0xC001:0"},
    look_at="what min_val and max_val are compared with: the generated bits as a number, before they are placed",
)
def bounds_are_those_of_the_generated_bits(bench: Bench) -> None:
    """The first field puts four bits into every other place, from 9 to 10: 0x82 and 0x88. The second has two, from 1
    to 2. Only these four EVs are used, and a profile of six is refused."""
    expect_evs(bench, {high << 24 | low << 16 | 0xC001 for high in (0x82, 0x88) for low in (0x41, 0x42)})
    expect_taken(bench)
    expect_refused(bench, "six EVs where the bounds allow four", evs_per_plane=3)


@case(
    "MRC-EV-12",
    mode="stev",
    ip=6,
    planes=1,
    options={**ONE_PLANE_ONE_EV, "ev_fields": "8:0xA0:0x0F:2:2 4:0:0xF:5:5"},
    look_at="the page's own example: 0x25 becomes 0xa2 and 0x5, that is 0xa25",
)
def the_example_of_the_page(bench: Bench) -> None:
    """Fields of 8 bits, init 0xa0, mask 0x0f, and of 4 bits, init 0, mask 0xf, with bounds that leave EV 0x25 alone:
    requests carry EV 0xa25."""
    expect_evs(bench, {0xA25})


@case(
    "MRC-EV-13",
    look_at="how many bits the fields of a profile may have together in each mode",
)
def each_mode_has_its_widest_ev(bench: Bench) -> None:
    """Fields of 16 bits in UDP mode, 32 in STEV mode, 128 in SRV6 mode and 256 in SRV6 mode with SRH are taken; in SRV6
    mode the last 32 bits are plane, 0 and uplink. With one bit more they are refused, although that bit is 0."""
    plan = "8:0:0x01 8:0:0 16:0:0x3"
    for what, limit, mode, fields, more in (
        ("UDP", 16, "udp", "16:0:0xFFFF", {}),
        ("STEV", 32, "stev", "32:0:0xFFFF", {}),
        ("SRV6", 128, "srv6", f"96:0:0 {plan}", {}),
        ("SRV6 with SRH", 256, "srv6", f"224:0:0 {plan}", {"srh": 1}),
    ):
        expect_taken(bench, mode=mode, ip=6, ev_fields=fields, **more)
        expect_refused(bench, f"an EV of {limit + 1} bits in {what} mode", mode=mode, ip=6, ev_fields=f"1:0:0 {fields}")
