# SPDX-License-Identifier: BSD-2-Clause
"""docs/layers-tutorial.md, block by block: what it prints is what it says; its live part against an endpoint."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from scapy.config import conf
from tutorials import DOCS, steps

from mrc.fabric import Clos, Fabric
from mrc.lab import Lab
from mrc.layers import use_wire_profile
from mrc.net.device import open_device
from mrc.verbs import MR, QP, ConnectionParameters, Context, QPCap, connect, describe
from mrc.wire.profile import DEFAULT_WIRE_PROFILE

TUTORIAL = DOCS / "layers-tutorial.md"


def test_the_tutorial_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    names: dict[str, Any] = {}
    here = [step for step in steps(TUTORIAL) if not step.live]
    try:
        for step in here:
            step.run(names)
    finally:
        use_wire_profile(DEFAULT_WIRE_PROFILE)
    assert len(here) >= 14
    assert all(step.shown for step in here)


@pytest.fixture
def lab() -> Iterator[Lab]:
    """One plane, so that every answer comes from the address that was asked."""
    with Lab.up(f"layers-{os.getpid()}", Clos(planes=1)) as built:
        yield built


@pytest.fixture
def inbox() -> bytearray:
    return bytearray(64)


@pytest.fixture
def listening(lab: Lab, inbox: bytearray) -> Iterator[tuple[QP, MR]]:
    """An endpoint on h1 with a QP connected to one of h0's, which nobody runs: Scapy speaks for it."""

    def context_on(host: str, stack: contextlib.ExitStack) -> Context:
        fabric = Fabric.load(lab.fabric_path(host))
        device = lab.inside(host, lambda: stack.enter_context(open_device(fabric)))
        return stack.enter_context(Context(device))

    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as briefly:
            node = context_on("h0", briefly).address
        context = context_on("h1", stack)
        domain, queue = context.pd(), context.cq(16)
        region = domain.mr(inbox)
        qp = QP(domain, send_cq=queue, recv_cq=queue, cap=QPCap(max_send_wr=4, max_recv_wr=4))
        ours = describe(qp)
        theirs = ConnectionParameters(0x111, 0, ours.path_mtu, ours.mpr_dest, ours.max_wimm_dest, ours.caps, node)
        connect(qp, ours, theirs)
        yield qp, region


@pytest.fixture
def scapy_elsewhere() -> Iterator[None]:
    """Scapy keeps interfaces and routes for the process: those of here come back afterwards."""
    yield
    conf.ifaces.reload()
    conf.route.resync()
    conf.route6.resync()
    conf.iface = conf.ifaces.dev_from_name("lo")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root")
@pytest.mark.usefixtures("scapy_elsewhere")
def test_the_live_part_prints_what_it_says(lab: Lab, listening: tuple[QP, MR], inbox: bytearray) -> None:
    qp, region = listening
    names: dict[str, Any] = {"qp": qp.qp_num, "target": region.remote}

    def on_h0() -> None:
        conf.ifaces.reload()
        conf.iface = conf.ifaces.dev_from_name("p0")
        conf.route6.resync()
        for step in steps(TUTORIAL):
            if step.live:
                step.run(names)

    lab.inside("h0", on_h0)
    assert inbox[:12] == b"from a shell"
