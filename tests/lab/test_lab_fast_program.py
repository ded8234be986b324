# SPDX-License-Identifier: BSD-2-Clause
"""The shipped program of fast fabrics is what its source makes; the comparison with the kernel notices changed ones."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fast_shapes import Watched, shapes

from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.bpf import USID_OBJECT, PortsProgram

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
SOURCE = USID_OBJECT.with_suffix(".c")
SHAPE = Clos(planes=1, leaves=2, spines=2, hosts_per_leaf=2)


@pytest.fixture(scope="module")
def kernel(lab_name: Callable[[str], str], need_root: None) -> Iterator[Watched]:
    with Lab.up(lab_name("oracle"), SHAPE) as built:
        opened = Watched(built)
        yield opened
        opened.close()


@pytest.fixture
def with_source(
    need_program: Callable[[str], str],
    tmp_path: Path,
    lab_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str], Watched]]:
    """A fast lab whose program is compiled from a text in place of usid.c."""
    need_program("clang")
    opened: list[Watched] = []
    load = PortsProgram.load

    def built(text: str) -> Watched:
        place = tmp_path / SOURCE.relative_to(ROOT)
        place.parent.mkdir(parents=True)
        (tmp_path / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "build-bpf", tmp_path / "tools")
        place.write_text(text)
        done = subprocess.run([tmp_path / "tools" / "build-bpf"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        monkeypatch.setattr(PortsProgram, "load", lambda indices: load(indices, place.with_suffix(".o")))
        opened.append(Watched(Lab.up(lab_name("compiled"), SHAPE, fast=True)))
        return opened[-1]

    yield built
    for each in opened:
        each.close()
        each.lab.down()


def is_the_same(kernel: Watched, other: Watched) -> bool:
    """Whether both labs do the same with every shape."""
    return all(kernel.seen(shape) == other.seen(shape) for shape in shapes(SHAPE))


def test_the_source_does_what_the_shipped_object_does(kernel: Watched, with_source: Callable[[str], Watched]) -> None:
    # The shipped one against the kernel: test_lab_fast.py.
    assert is_the_same(kernel, with_source(SOURCE.read_text()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("header->hop_limit <= 1", "header->hop_limit < 1"),
        ("header->hop_limit--;", ""),
        ("length + ETH_HLEN != skb->len", "length + ETH_HLEN > skb->len"),
        ("|| header->nexthdr == IPPROTO_HOPOPTS", ""),
        ("|| skb->pkt_type != PACKET_HOST", ""),
        ("|| skb->vlan_present", ""),
        ("header->version != 6 ||", ""),
        ("to->s6_addr16[7] = 0;", "to->s6_addr16[7] = from->s6_addr16[7];"),
        ("!source->s6_addr32[0] ||", ""),
        ("__builtin_memcpy(frame->h_source, decision->from, ETH_ALEN);", ""),
        ("&& first[2] == own[2]", ""),
        ("daddr.s6_addr16[2] << 16 | header->daddr.s6_addr16[3]", "daddr.s6_addr16[2]"),
    ],
)
def test_a_changed_source_is_noticed(
    kernel: Watched, with_source: Callable[[str], Watched], before: str, after: str
) -> None:
    text = SOURCE.read_text()
    assert text.count(before) == 1
    assert not is_the_same(kernel, with_source(text.replace(before, after)))
