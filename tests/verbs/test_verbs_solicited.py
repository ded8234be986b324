# SPDX-License-Identifier: BSD-2-Clause
"""Solicited events: a bit in the last packet of a write with immediate, which wakes who waits for nothing else."""

from __future__ import annotations

import pytest
from verbs_pair import Pair

from mrc.endpoint.config import EndpointConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import (
    QP,
    WC,
    CompChannel,
    Context,
    RecvWR,
    SendFlag,
    SendWR,
    WROpcode,
    connect,
    describe,
)
from mrc.wire.profile import WireProfile

IMM = WROpcode.RDMA_WRITE_WITH_IMM
PATH_MTU = 1024
# Behind the inner IPv6 and UDP headers: the opcode, then SE, M, pad and TVer.
_OPCODE_AT, _FLAGS_AT = 48, 49
_REQUESTS = range(0x06, 0x0C)


@pytest.mark.parametrize(("first", "bit"), [(True, 0x80), (False, 0x40)])
@pytest.mark.parametrize(("opcode", "flags", "solicited"), [
    (IMM, SendFlag.SOLICITED, True),
    (IMM, SendFlag.SIGNALED, False),
    (WROpcode.RDMA_WRITE, SendFlag.SOLICITED, False),
])  # fmt: skip
def test_the_last_packet_of_what_is_solicited_says_so(
    opcode: WROpcode, flags: SendFlag, solicited: bool, first: bool, bit: int
) -> None:
    config = EndpointConfig(seed=1, wire=WireProfile(solicited_event_first=first))
    agents = {host: Endpoint(config) for host in ("h0", "h1")}
    fabric = SimFabric(Clos(planes=2, spines=2), LinkModel(), seed=1, agents=agents)
    sent: list[int] = []
    fabric.observers.append(
        lambda now, host, data: (
            sent.append(data[_FLAGS_AT] & 0xC0) if host == "h0" and data[_OPCODE_AT] & 0x1F in _REQUESTS else None
        )
    )
    left, right = (Context(SimDevice(fabric, host)) for host in ("h0", "h1"))
    with left, right:
        channel = CompChannel(right)
        cqs = left.cq(16), right.cq(16, channel=channel)
        ends = [QP(context.pd(), send_cq=cq, recv_cq=cq) for context, cq in zip((left, right), cqs, strict=True)]
        ours, theirs = (describe(qp, path_mtu=PATH_MTU) for qp in ends)
        connect(ends[1], theirs, ours)
        connect(ends[0], ours, theirs)
        source, target = ends[0].pd.mr(bytearray(3 * PATH_MTU)), ends[1].pd.mr(bytearray(3 * PATH_MTU))
        ends[1].post_recv(RecvWR(7))
        cqs[1].req_notify(solicited_only=True)
        immediate = 0xFFFFFFFE if opcode is IMM else None
        ends[0].post_send(
            SendWR(1, opcode, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey, imm_data=immediate,
                   send_flags=flags | SendFlag.SIGNALED)
        )  # fmt: skip
        while not cqs[0].poll():
            pass
        assert sent[:3] == [0, 0, bit if solicited else 0]
        if opcode is IMM:
            assert [(done.wr_id, done.imm_data) for done in cqs[1].poll()] == [(7, immediate)]
        woken = bool(channel._events.take(1))
        assert woken == solicited
        for end in ends:
            end.close()
        for cq in cqs:
            cq.close()
        channel.close()


def test_what_is_solicited_waits_for_those_before_it() -> None:
    """An immediate keeps its mark while it waits for a receive."""
    pair = Pair().connect()
    pair.left.qp.post_send(SendWR(1, IMM, imm_data=5, send_flags=SendFlag.SOLICITED))
    pair.left.qp.post_send(SendWR(2, IMM, imm_data=6))
    seen: list[tuple[int | None, bool]] = []
    usual = pair.right.qp.recv_cq.push

    def push(completion: WC, solicited: bool = False) -> None:
        seen.append((completion.imm_data, solicited))
        usual(completion, solicited)

    pair.right.qp.recv_cq.push = push  # type: ignore[method-assign]
    for number in (1, 2):
        pair.right.qp.post_recv(RecvWR(number))
    pair.right.poll_all(2)
    assert seen == [(5, True), (6, False)]
