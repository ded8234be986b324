# SPDX-License-Identifier: BSD-2-Clause
"""A network that is cut in two for minutes, under QPs with retries for jobs (behaviour.md, Retry budget)."""

from __future__ import annotations

from collections import Counter

import pytest
from verbs_pair import SECOND_NS, End, Pair

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.config import MAX_TIMEOUT_RETRIES, QpConfig
from mrc.net.tuning import transfer_config
from mrc.sim import SimFabric
from mrc.verbs import (
    FOR_JOBS,
    MR,
    QPAttr,
    QPCap,
    QPState,
    RecvWR,
    Retries,
    SendWR,
    WCStatus,
    WROpcode,
    connect,
    describe,
)

MILLISECOND_NS = 1_000_000
DEFAULTS, PROCESSES = QpConfig(), transfer_config(path_mtu=4096)


def outage_ns(tuning: QpConfig, longest: bool = False) -> int:
    """Longer than a QP is kept without retries for jobs: 4 s, and 18 with the tuning of processes. Interpreted, a
    second of virtual time takes half a second."""
    if CORE.kind == COMPILED:
        return (180 if longest else 60) * SECOND_NS
    return (8 if tuning is DEFAULTS else 24) * SECOND_NS


# Which QPs, what is cut, and in how many directions writes go. Interpreted two of them.
TUNINGS = {"defaults": DEFAULTS, "processes": PROCESSES}
WHAT = ("spines", "both hosts", "the sender", "the receiver")
CASES = [(tuning, what, ways) for tuning in TUNINGS for what in WHAT for ways in (1, 2)]
if CORE.kind != COMPILED:
    CASES = [
        ("defaults", "spines", 1),
        ("processes", "the sender", 2),
    ]
WRITES, SIZE = 24, 1 << 18
# Both ends, packets and packets' answers: what is asked in a second while nobody answers.
MOST_PACKETS_A_SECOND = 150


def cut_off(fabric: SimFabric, what: str) -> list[str]:
    """What is cut: the spines, about which no host hears anything, or hosts' own ports."""
    if what == "spines":
        return [name for name in fabric.switches if "s" in name]
    hosts = {"both hosts": ("h0", "h1"), "the sender": ("h0",), "the receiver": ("h1",)}[what]
    return [cable.name for cable in fabric.shape.host_links() if cable.lower in hosts]


def connected(tuning: QpConfig, retries: Retries = FOR_JOBS) -> Pair:
    pair = Pair(tuning=tuning, cap=QPCap(WRITES, WRITES))
    ours, theirs = describe(pair.left.qp), describe(pair.right.qp)
    connect(pair.right.qp, theirs, ours, **retries)
    connect(pair.left.qp, ours, theirs, **retries)
    return pair


def post_all(near: End, source: MR, target: MR) -> None:
    for number in range(WRITES):
        opcode = WROpcode.RDMA_WRITE_WITH_IMM
        near.qp.post_send(SendWR(number, opcode, source.sge(), target.addr, target.rkey, number))


@pytest.mark.parametrize(("name", "what", "ways"), CASES)
def test_it_is_waited_for_and_goes_on_within_a_second(name: str, what: str, ways: int) -> None:
    tuning = TUNINGS[name]
    pair = connected(tuning)
    fabric, ends = pair.fabric, (pair.left, pair.right)
    content = [bytes((at * 7 + end) & 0xFF for at in range(SIZE)) for end in range(2)]
    sources = [end.pd.mr(bytearray(content[place])) for place, end in enumerate(ends)]
    memories = [bytearray(SIZE), bytearray(SIZE)]
    targets = [end.pd.mr(memory) for end, memory in zip(ends, memories, strict=True)]
    seen: Counter[int] = Counter()
    fabric.observers.append(lambda now, _node, _packet: seen.update([now // SECOND_NS]))
    for place in range(ways):
        for number in range(WRITES):
            ends[1 - place].qp.post_recv(RecvWR(number))
        post_all(ends[place], sources[place], targets[1 - place])
    down, names = fabric.now + 2 * MILLISECOND_NS, cut_off(fabric, what)
    up = down + outage_ns(tuning, longest=(what, ways) == ("spines", 1))
    fabric.at(down, lambda: fabric.cut(*names))
    fabric.at(up, lambda: fabric.heal(*names))
    fabric.run(up)
    # The cut came in the middle.
    done = [len(end.cq._queue) for end in ends]
    assert all(0 < count < 2 * WRITES for count in done)
    assert [end.qp.state for end in ends] == [QPState.RTS] * 2
    sent_by_then = [end.qp.figures.counters.data_packets_sent for end in ends]
    assert max(seen[second] for second in range(down // SECOND_NS + 2, up // SECOND_NS - 1)) < MOST_PACKETS_A_SECOND

    assert fabric.run(
        up + SECOND_NS, lambda: all(len(end.cq._queue) > was for end, was in zip(ends, done, strict=True))
    )
    assert fabric.run(up + 5 * SECOND_NS, lambda: sum(len(end.cq._queue) for end in ends) == 2 * ways * WRITES)
    for end in ends:
        completions = end.cq.poll(4 * WRITES)
        assert {each.status for each in completions} == {WCStatus.SUCCESS}
        arrived = [each.imm_data for each in completions if each.imm_data is not None]
        assert arrived in ([], list(range(WRITES)))
        counters = end.qp.figures.counters
        # What was on its way is sent again, and no more than that.
        assert counters.retransmitted_packets < 600
        assert counters.spurious_retransmissions < 60
    packets = WRITES * SIZE // 4096
    for place in range(ways):
        assert memories[1 - place] == content[place]
        assert 0 < packets - sent_by_then[place] < packets
        assert ends[place].qp.figures.counters.data_packets_sent - packets < 600


def test_with_fewer_retries_than_for_ever_it_is_given_up() -> None:
    """What the test above would see otherwise: four seconds, eighteen where processes share a machine."""
    for tuning, retries, least, most in (
        (DEFAULTS, Retries(timeout=14, linear_retries=7, exponential_retries=7), 4, 5),
        (PROCESSES, Retries(timeout=17, linear_retries=7, exponential_retries=24), 17, 19),
        # Other retries than the tuning's count whole: 1.024 us x 2^12 x (3 + 2^11 - 1), not thirteen of them.
        (PROCESSES, Retries(timeout=12, linear_retries=3, exponential_retries=10), 8.5, 9),
    ):
        pair = connected(tuning, retries)
        source, target, _ = pair.memory(b"\7" * 1000)
        pair.fabric.cut(*cut_off(pair.fabric, "spines"))
        began = pair.fabric.now
        pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
        (done,) = pair.left.poll_all(1)
        assert done.status == WCStatus.RETRY_EXCEEDED
        assert least * SECOND_NS < pair.fabric.now - began < most * SECOND_NS


def test_a_qp_without_a_timeout_is_never_given_up() -> None:
    """`timeout` 0: none, whatever retries are given. It asks as often as the tuning says, and goes on afterwards."""
    pair = connected(DEFAULTS, Retries(timeout=0, linear_retries=0, exponential_retries=0))
    source, target, memory = pair.memory(b"\7" * 1000)
    pair.fabric.cut(*cut_off(pair.fabric, "spines"))
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    pair.run(6 * SECOND_NS)  # the defaults give up after 4.4 s
    assert pair.left.qp.state == QPState.RTS
    assert pair.left.qp.query().timeout == 0
    pair.fabric.heal(*cut_off(pair.fabric, "spines"))
    (done,) = pair.left.poll_all(1)
    assert done.status == WCStatus.SUCCESS
    assert memory == b"\7" * 1000


def test_the_name_is_what_a_qp_takes_on_its_way_to_rts() -> None:
    pair = Pair()
    pair.bring_left_to(QPState.RTR)
    pair.left.qp.modify(QPAttr(qp_state=QPState.RTS, sq_psn=1, max_wimm=32, mpr=8, **FOR_JOBS))
    queried = pair.left.qp.query()
    assert {name: getattr(queried, name) for name in FOR_JOBS} == dict(FOR_JOBS)


def test_a_qp_that_never_gives_up_ends_when_its_owner_says_so() -> None:
    """A dead peer is told of by other means."""
    pair = connected(DEFAULTS)
    source, target, _ = pair.memory(b"\7" * 1000)
    pair.right.context.close()
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    pair.run(10 * outage_ns(PROCESSES, longest=True) // 3)
    assert pair.left.qp.state == QPState.RTS
    pair.left.qp.modify(QPAttr(qp_state=QPState.ERROR))
    assert [each.status for each in pair.left.cq.poll(2)] == [WCStatus.FLUSHED]


def test_for_ever_holds_whatever_the_tuning_says_of_timeouts_in_a_row() -> None:
    """Those of processes gives up after thirteen."""
    assert PROCESSES.timeout_retries == 13
    config = connected(PROCESSES).left.qp.endpoint_qp.config
    assert (config.exponential_retries, config.timeout_retries) == (25, MAX_TIMEOUT_RETRIES)
