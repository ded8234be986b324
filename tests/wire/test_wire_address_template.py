# SPDX-License-Identifier: BSD-2-Clause
"""Address templates of a deployment (wire.md section 11): the example of the source, and what is refused."""

from __future__ import annotations

import ipaddress
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.wire.address_template import AddressTemplate

EXAMPLE = {
    "template_data": "5f00::1:104:0:0",
    "template_mask": "0:0:70:7003:70::",
    "ps_mask": "0x1ffc",
    "ps_list": [2345, "0x92d"],
}


def text(address: int) -> str:
    return str(ipaddress.IPv6Address(address))


def test_the_example_of_the_source() -> None:
    template = AddressTemplate.from_document(EXAMPLE, "the example")
    assert text(template.address_of(2345)) == "5f00:0:20:2001:21:104::"
    # 2345 >> 2 is 010 010 01 010 in binary: three bits under 70, three and two under 7003, three under 70.
    assert text(template.address_of(0)) == "5f00::1:104:0:0"
    assert text(template.address_of(0x1FFC)) == "5f00:0:70:7003:71:104::"
    # The lowest two bits play no part.
    assert {template.address_of(2344 + port) for port in range(4)} == {template.address_of(2345)}
    assert template.usids(0, 0) == (0x0020, 0x2001, 0x0021, 0x0104)
    assert template.count(uplinks=0) == 2
    assert [template.ev(0, number) for number in range(2)] == [2345, 0x92D]
    assert template.uplink_of(0, 0x92D) == 1
    assert template.uplink_of(0, 7) is None
    assert AddressTemplate.from_document(template.to_document(), "again") == template


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1), st.randoms())
def test_every_bit_goes_to_its_place_in_order(ps_mask: int, ev: int, chance: random.Random) -> None:
    places = sorted(chance.sample(range(128), ps_mask.bit_count()), reverse=True)
    mask = sum(1 << place for place in places)
    data = chance.getrandbits(128) & ~mask
    selected = [bit for bit in reversed(range(32)) if ps_mask >> bit & 1]
    expected = data | sum((ev >> bit & 1) << place for bit, place in zip(selected, places, strict=True))
    assert AddressTemplate(data, mask, ps_mask, (0,)).address_of(ev) == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ps_mask": "0x1fff"}, "template_mask has 11 bits and ps_mask 13"),
        ({"template_data": "5f00:0:10:1:104::"}, "bits under template_mask"),
        ({"template_data": "here"}, "the example: "),
        ({"template_mask": 7}, "the example: "),
        ({"ps_mask": "some"}, "ps_mask is 'some'"),
        ({"ps_mask": 1.5}, "ps_mask is 1.5"),
        ({"ps_list": []}, "ps_list has 0 EVs"),
        ({"ps_list": 4}, "no list"),
        ({"ps_list": [True]}, "an EV of ps_list is True"),
        ({"ps_list": [4, 4]}, "twice"),
        ({"ps_list": [1 << 32]}, "32 bits"),
        ({"ps_list": [-1]}, "32 bits"),
    ],
)
def test_what_is_no_template_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(CallerError, match=words):
        AddressTemplate.from_document(EXAMPLE | change, "the example")


@pytest.mark.parametrize("name", EXAMPLE)
def test_what_lacks_a_member_is_refused(name: str) -> None:
    with pytest.raises(CallerError, match=f"the example has no {name}"):
        AddressTemplate.from_document({key: value for key, value in EXAMPLE.items() if key != name}, "the example")
