# SPDX-License-Identifier: BSD-2-Clause
"""Traces of whole transfers in virtual time: they agree with what links and packets say, and change nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from sim_transfer import MICROSECOND, NODES, check_all_arrived, path, run, transfer

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.trace.vocabulary import EVENTS, EventType

SIZES = [400_000] * 4
CLEAN = LinkModel(delay_ns=10 * MICROSECOND, rate_bps=10**9)


class _Recorder:
    """Keeps (name, time, fields) of what it is told."""

    def __init__(self) -> None:
        self.fabric: SimFabric | None = None
        self.told: list[tuple[str, int, dict[str, object]]] = []

    def now(self) -> int:
        return 0 if self.fabric is None else self.fabric.now

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
        names = (field.name for field in EVENTS[kind.name].fields)
        self.told.append((kind.name, at_ns, dict(zip(names, values, strict=True))))

    def of(self, name: str) -> list[dict[str, object]]:
        return [fields for told, _, fields in self.told if told == name]


def _network(seed: int, tracer: _Recorder | None, lossy: LinkModel = CLEAN) -> tuple[SimFabric, Endpoint]:
    """2 planes of 4 spines; what h0 sends over plane 1, spine 2 goes by `lossy`."""
    sender = Endpoint(EndpointConfig(seed=seed), tracer=tracer)
    fabric = SimFabric(Clos(2, 2, 4), CLEAN, seed=seed, agents={"h0": sender})
    if tracer is not None:
        tracer.fabric = fabric
    path(fabric, "h0", 1, 2).model = lossy
    return fabric, sender


def _transferred(fabric: SimFabric) -> None:
    qp, _ = fabric.connect(*NODES, QpConfig(path_mtu=1024), controller="fixed")
    each = transfer(fabric, qp, "h0", SIZES)
    assert run(fabric, [each])
    check_all_arrived(each)
    fabric.endpoints["h0"].destroy_qp(qp)


@pytest.mark.parametrize("seed", range(4))
def test_losses_are_those_that_the_link_counts(seed: int) -> None:
    """Everything h0 put on the lossy path is data or a reliability probe: what the link lost of it is told, as data
    lost and not spuriously, or as probes without an answer. No other path is said to have lost anything."""
    recorder = _Recorder()
    fabric, _ = _network(seed, recorder, replace(CLEAN, loss=0.2))
    on_path: list[bytes] = []
    lossy_ev = 1 << 24 | 2
    fabric.observers.append(lambda now, host, packet: on_path.append(packet) if host == "h0" else None)
    _transferred(fabric)
    # wire.md section 10: the EV's high half is in the flow label, its low half in the source port.
    sent = [packet for packet in on_path if (packet[2] << 8 | packet[3]) == 0x100 and packet[40:42] == b"\x00\x02"]
    opcodes = Counter(packet[48] for packet in sent)
    lost = Counter(fields["ev"] for fields in recorder.of("recovery:packet_lost"))
    lost.subtract(Counter(fields["ev"] for fields in recorder.of("recovery:spurious_loss")))
    probed = {fields["probe_id"] for fields in recorder.of("recovery:probe_sent") if fields["ev"] == lossy_ev}
    answered = {fields["probe_id"] for fields in recorder.of("recovery:probe_answered")}
    counted = path(fabric, "h0", 1, 2).counters.lost
    assert counted >= 2
    assert set(opcodes) <= {0xC6, 0xC7, 0xC8, 0xCA, 0xDE}
    assert len(probed) == opcodes[0xDE]
    # A probe may be under way when the QP is let go of.
    missing = counted - (lost.pop(lossy_ev) + len(probed - answered))
    assert -1 <= missing <= 0
    assert not any(lost.values())
    (totals,) = (fields for fields in recorder.of("path:ev_totals") if fields["ev"] == lossy_ev)
    assert totals["packets"] == opcodes.total() - opcodes[0xDE]


@pytest.mark.parametrize("model", [replace(CLEAN, loss=0.05), replace(CLEAN, mark=0.3), replace(CLEAN, reorder=0.5)])
def test_a_tracer_changes_nothing(model: LinkModel) -> None:
    """A run sends identical packets at identical times with a tracer and without."""
    seen: list[list[tuple[int, str, bytes]]] = []
    for tracer in (None, _Recorder()):
        fabric, _ = _network(7, tracer, replace(model, jitter_ns=100 * MICROSECOND))
        packets: list[tuple[int, str, bytes]] = []
        fabric.observers.append(lambda now, host, packet, into=packets: into.append((now, host, packet)))  # type: ignore[misc]
        _transferred(fabric)
        seen.append(packets)
        if tracer is not None:
            assert _says_something(tracer, model)
    assert len(seen[0]) > sum(SIZES) // 1024
    assert seen[0] == seen[1]


def _says_something(recorder: _Recorder, model: LinkModel) -> bool:
    """Whether the network did what it is there for."""
    if model.mark:
        return any(fields["cause"] == "MARKED" for fields in recorder.of("path:ev_state"))
    return bool(recorder.of("recovery:packet_lost"))
