# SPDX-License-Identifier: BSD-2-Clause
"""A path in two containers, one of them in a segment routing header (wire.md section 11)."""

from __future__ import annotations

import numpy as np
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc.wire.header_rows import new_headers, split_rows
from mrc.wire.srh import SRH_HEAD, two_containers
from mrc.wire.usid import UsidTemplate, address_text

addresses = st.builds(
    lambda leaf, spine, far, host, plane, block: UsidTemplate(leaf, far, host, block).address(plane, spine),
    *(st.integers(0, 255),) * 4,
    st.integers(0, 15),
    st.integers(0, (1 << 32) - 1),
)


def test_the_host_port_stands_in_the_routing_header() -> None:
    """wire.md section 11's example, split; and two hosts on one leaf. MRC-SRV6-11."""
    first, following = two_containers(UsidTemplate(0, 1, 1).address(1, 3))
    assert (address_text(first), address_text(following)) == ("5f00:0:1100:2103:1101::", "5f00:0:4101::")
    first, following = two_containers(UsidTemplate(0, 0, 1).address(0, 0))
    assert (address_text(first), address_text(following)) == ("5f00:0:1000::", "5f00:0:4001::")


def test_the_routing_header_by_hand() -> None:
    """RFC 8754 section 2: next header 41, 16 bytes beyond the first 8, type 4, segments left 1, last entry 0.

    MRC-SRV6-11.
    """
    assert bytes([41, 2, 4, 1, 0, 0, 0, 0]) == SRH_HEAD


@settings(max_examples=draws(16), deadline=None)
@given(st.lists(addresses, min_size=1, max_size=20))
def test_many_paths_split_as_one_does(whole: list[int]) -> None:
    rows = np.frombuffer(b"".join(address.to_bytes(16, "big") for address in whole), np.uint8).reshape(-1, 16).copy()
    # A row that is not the memory's whole width, as in a sockaddr.
    wide = np.zeros((len(whole), 28), np.uint8)
    wide[:, 8:24] = rows
    headers = new_headers(len(whole))
    for _ in range(2):
        wide[:, 8:24] = rows
        split_rows(wide[:, 8:24], headers)
        found = [
            (int.from_bytes(address[8:24].tobytes(), "big"), int.from_bytes(header[8:].tobytes(), "big"))
            for address, header in zip(wide, headers, strict=True)
        ]
        assert found == [two_containers(address) for address in whole]
        assert all(header[:8].tobytes() == SRH_HEAD for header in headers)
