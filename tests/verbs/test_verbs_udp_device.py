# SPDX-License-Identifier: BSD-2-Clause
"""`open_device` on ordinary addresses, with its timers, line rate and trace, used as an asyncio program uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from patience import eventually
from tutorials import DOCS, programs

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.net.device import NodeDevice, open_device, transfer_config
from mrc.trace import read_trace
from mrc.trace.writer import TraceWriter
from mrc.verbs import QP, AccessFlag, Context, QPCap, RecvWR, SendFlag, SendWR, WCStatus, WROpcode, connect, describe

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]
TUNING = transfer_config(path_mtu=4096)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts that reach each other by plain IPv6: nobody tells them of the fabric between them."""
    with Lab.up(f"udp-device-{os.getpid()}", Clos(planes=2, spines=2)) as built:
        yield built


@pytest.fixture
def opened(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., NodeDevice]]:
    monkeypatch.delenv("MRC_FABRIC", raising=False)
    with ExitStack() as stack:

        def act(host: str, *arguments: Any, **options: Any) -> NodeDevice:
            return lab.inside(host, lambda: stack.enter_context(open_device(*arguments, **options)))

        yield act


async def exchange(client: Context, server: Context, content: bytes) -> bytes:
    """A write with immediate; both ends await their completions in one event loop."""
    cqs = client.cq(16), server.cq(16)
    cap = QPCap(max_send_wr=4, max_recv_wr=4)
    left, right = (
        QP(each.pd(), send_cq=cq, recv_cq=cq, cap=cap) for each, cq in zip((client, server), cqs, strict=True)
    )
    ours, theirs = describe(left), describe(right)
    connect(right, theirs, ours)
    connect(left, ours, theirs)
    inbox = bytearray(len(content))
    source, target = left.pd.mr(content, AccessFlag(0)), right.pd.mr(inbox)
    right.post_recv(RecvWR(7))
    left.post_send(
        SendWR(
            1,
            WROpcode.RDMA_WRITE_WITH_IMM,
            source.sge(0, len(content)),
            target.addr,
            target.rkey,
            99,
            SendFlag.SIGNALED,
        )
    )
    sent, received = await asyncio.wait_for(asyncio.gather(cqs[0].wait(), cqs[1].wait()), 60)
    assert [(each.wr_id, each.status) for each in sent] == [(1, WCStatus.SUCCESS)]
    assert [(each.wr_id, each.imm_data) for each in received] == [(7, 99)]
    return bytes(inbox)


def test_two_hosts_without_a_fabric(lab: Lab, opened: Callable[..., NodeDevice], tmp_path: Path) -> None:
    """Both planes, as far as their own addresses and the way to the peer say which those are."""
    content = os.urandom(300_000)
    with TraceWriter.open(tmp_path / "client.trace", title="a program", vantage_point="sender") as tracer:
        one = opened("h0", towards=lab.addresses("h1"), tuning=TUNING, tracer=tracer, line_rate_bps=2 * 10**9)
        other = opened("h1", addresses=lab.addresses("h1"), tuning=TUNING, program="the server")
        assert [port.address for port in one.ports()] == list(lab.addresses("h0"))
        assert one.node.fabric.mode == other.node.fabric.mode == "udp"
        with Context(one) as client, Context(other) as server:
            assert client.tuning == server.tuning == TUNING
            assert asyncio.run(exchange(client, server, content)) == content
            (qp,) = one.endpoint.qps.values()
            assert qp.config.loss.path_timer_min_ns == 20_000_000
            assert {path.plane for path in qp.paths.paths} == {0, 1}
    with (tmp_path / "client.trace").open("rb") as stream:
        header, events = read_trace(stream)
        names = {event.name for event in events}
    assert (header.title, events.ended) == ("a program", True)
    assert {"connectivity:qp_state", "connectivity:requestor_started"} <= names


def test_the_program_of_the_page_writes_from_process_to_process(lab: Lab, tmp_path: Path) -> None:
    (program,) = programs(DOCS / "verbs.md")
    (tmp_path / "two.py").write_text(program)
    here, there = lab.addresses("h0")[0], lab.addresses("h1")[0]
    environment = {name: value for name, value in os.environ.items() if name != "MRC_FABRIC"}

    def started(host: str, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, str(tmp_path / "two.py"), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return lab.inside(host, lambda: subprocess.Popen(argv, env=environment, **pipes))  # type: ignore[call-overload]

    waits = started("h1", there)
    sockets = Path(f"/proc/{waits.pid}/net/tcp6")
    # Port 9000, in LISTEN.
    eventually(lambda: ":2328 " in sockets.read_text() and " 0A " in sockets.read_text())
    writes = started("h0", here, there)
    said = [each.communicate(timeout=60) for each in (writes, waits)]
    assert [out for out, _ in said] == ["SUCCESS\n", "from the other process\n"], said


def test_the_line_rate_is_what_congestion_control_begins_with(opened: Callable[..., NodeDevice], lab: Lab) -> None:
    def rate(**options: Any) -> Any:
        device = opened("h0", addresses=lab.addresses("h0")[:1], **options)
        return device.node.controller.query_cc_profile(0).config.line_rate_bps

    assert rate(line_rate_bps=2 * 10**9) == 2 * 10**9


def test_a_context_s_own_tuning_is_stronger(opened: Callable[..., NodeDevice], lab: Lab) -> None:
    device = opened("h0", addresses=lab.addresses("h0"), tuning=TUNING)
    own = transfer_config(path_mtu=1024)
    with Context(device) as context, Context(device, tuning=own) as other:
        assert (context.tuning, other.tuning) == (TUNING, own)


def test_without_anything_mrc_fabric_is_looked_at(
    opened: Callable[..., NodeDevice], lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRC_FABRIC", str(lab.fabric_path("h1")))
    device = opened("h1")
    assert device.node.fabric.mode == "srv6"
    assert opened("h0", str(lab.fabric_path("h0"))).node.fabric.host == 0


def test_arguments_that_make_no_sense(opened: Callable[..., NodeDevice], lab: Lab) -> None:
    with pytest.raises(CallerError, match="leave out addresses"):
        opened("h0", lab.fabric_path("h0"), addresses=lab.addresses("h0"))
    with pytest.raises(SystemRefused, match="no address of this host"):
        opened("h0", addresses=["192.0.2.77"])
    with pytest.raises(CallerError, match="line rate"):
        opened("h0", addresses=lab.addresses("h0"), line_rate_bps=1)
