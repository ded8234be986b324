# SPDX-License-Identifier: BSD-2-Clause
"""The shipped program is what its source makes: both do the same with the same packets; a changed source does not."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from bpf_frames import (
    CE,
    CONTROL,
    IPV6,
    KINDS,
    NO_TRIM,
    NOT_ECT,
    TCP,
    TRIMMABLE,
    TRIMMABLE_RETX,
    TRIMMED,
    TRIMMED_LASTHOP,
    UDP,
    framed,
    ipv4,
    ipv6,
    packet,
    stand_still,
    udp,
)

from mrc.fabric import Impairment
from mrc.lab.bpf import LINK_OBJECT, LinkProgram, LinkSettings, trial

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
SOURCE = LINK_OBJECT.with_name("link.c")


@pytest.fixture
def build(need_program: Callable[[str], str], tmp_path: Path) -> Callable[[str], Path]:
    """Compiles a text in place of link.c, in a copy of the tool's surroundings."""
    need_program("clang")

    def compiled(text: str) -> Path:
        (tmp_path / "tools").mkdir(exist_ok=True)
        place = tmp_path / SOURCE.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tools" / "build-bpf", tmp_path / "tools")
        place.write_text(text)
        done = subprocess.run([tmp_path / "tools" / "build-bpf"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return place.with_name("link.o")

    return compiled


def contents(dice: random.Random) -> Iterator[bytes]:
    """Packets of every kind, whole, cut short, with a byte changed, and others."""
    codepoints = (NO_TRIM, TRIMMABLE, TRIMMABLE, TRIMMABLE_RETX, TRIMMED, TRIMMED_LASTHOP, CONTROL, 63)
    while True:
        dscp, ecn, payload = dice.choice(codepoints), dice.randint(NOT_ECT, CE), dice.choice([0, 1, 100, 1000, 2900])
        content = packet(dice.choice(KINDS), dscp, ecn, payload)
        chance = dice.random()
        if chance < 0.1:
            content = content[: dice.randint(40, len(content))]
        elif chance < 0.3:
            at = dice.randrange(min(len(content), 120))
            content = content[:at] + bytes([dice.randrange(256)]) + content[at + 1 :]
        elif chance < 0.5:
            port = dice.choice([4971, 4790, 53])
            content = dice.choice(
                [
                    ipv6(TCP, bytes(payload), dscp, ecn),
                    ipv4(TCP, bytes(payload), dscp, ecn),
                    ipv6(UDP, udp(payload, port), dscp, ecn),
                    ipv6(IPV6, ipv6(UDP, udp(payload, port), dscp, ecn), dscp, ecn),
                    ipv4(UDP, udp(payload), dscp, ecn, fragment=dice.choice([0x2000, 0x2000, 0x4000, 3])),
                ]
            )
        yield content


def behaviour(path: Path, seed: int, rounds: int = 40, packets: int = 30) -> list[object]:
    """What the program of an object file does with a sequence of settings and packets that `seed` gives."""
    dice = random.Random(seed)
    source = contents(dice)
    seen: list[object] = []
    with LinkProgram.load(path) as program:
        for _ in range(rounds):
            wanted = Impairment(
                rate_bps=100_000,
                queue_bytes=dice.choice([20_000, 60_000]),
                ecn_at_bytes=dice.choice([0, dice.randint(1, 5000)]),
                trim_at_bytes=dice.choice([0, dice.randint(5001, 15_000)]),
                trim_to_bytes=dice.choice([0, 0, dice.randint(64, 2000)]),
                trim_dscp=dice.choice([0, 48]),
                trim_dscp_lasthop=dice.choice([0, 50]),
                corrupt=dice.choice([0, 0, 0, 1]),
            )
            told = LinkSettings(wanted, wanted.limit_bytes, dice.choice([0, 3000]), dice.random() < 0.3, 0x70001)
            # What waits from the round before leaves as this packet comes.
            program.set(replace(told, impairment=replace(wanted, rate_bps=10**12, corrupt=0)))
            trial.run(program, framed(ipv6(TCP, b"", NO_TRIM, NOT_ECT)))
            if dice.random() < 0.1:
                program.set(replace(told, impairment=Impairment()))
            else:
                stand_still(program, told)
            for _ in range(packets):
                content = next(source)
                segments = 500 if dice.random() < 0.05 else 0
                done = trial.run(program, framed(content), segment_bytes=segments)
                frame = done.frame
                if wanted.corrupt and len(frame) == len(content) + 14:
                    # Which bit is turned over is chance; how many are is not.
                    frame = bytes([(int.from_bytes(frame[14:]) ^ int.from_bytes(content)).bit_count()])
                seen.append((done.passed, frame, done.tc_class))
            seen.append(asdict(program.counters()))
    return seen


@cache
def of_the_shipped(seed: int) -> list[object]:
    return behaviour(LINK_OBJECT, seed)


def test_the_shipped_object_does_what_its_source_says(build: Callable[[str], Path]) -> None:
    made = build(SOURCE.read_text())
    for seed in range(4):
        assert behaviour(made, seed) == of_the_shipped(seed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("data > trim_at)", "data > trim_at + 100 * BYTE)"),
        ("data > ecn_at &&", "data > ecn_at + 100 * BYTE &&"),
        ("set->ecn_at_bytes && !set->last_hop &&", "set->ecn_at_bytes &&"),
        ("packet->ecn != CE", "packet->ecn"),
        ("set->dscp_trimmed_lasthop : set", "set->dscp_trimmed : set"),
        ("if (!packet->tunnelled && length", "if (packet->tunnelled && length"),
        ("kept = set->trim_to_bytes", "kept = set->trim_to_bytes - ETH_HLEN"),
        ("if (length == packet->length)", "if (length < packet->length)"),
        ("uncut = kept == length", "uncut = kept > length"),
        ("(routing.hdrlen + 1) * 8", "routing.hdrlen * 8"),
        ("|| skb->gso_size ||", "||"),
        ("IPV4_FRAGMENT 0x3fff", "IPV4_FRAGMENT 0x1fff"),
        ("q->fast + length > limit", "q->fast > limit"),
        ("skb->priority = set->fast_class", "skb->priority = 0"),
        ("q->all += length;", "q->all += kept;"),
    ],
)
def test_a_changed_source_is_noticed(build: Callable[[str], Path], before: str, after: str) -> None:
    text = SOURCE.read_text()
    assert text.count(before) == 1
    made = build(text.replace(before, after))
    assert any(behaviour(made, seed) != of_the_shipped(seed) for seed in range(64))
