# SPDX-License-Identifier: BSD-2-Clause
"""What the endpoint offers to those who build on it: parameters set late, numbers kept, memory apart, events told."""

from __future__ import annotations

import pytest

from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.events import Event
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.fabric import Clos
from mrc.sim import SimFabric
from mrc.trace.vocabulary import PORT


def test_a_number_given_is_the_number_and_given_once() -> None:
    endpoint = Endpoint()
    qp = endpoint.create_qp(qpn=0x4711)
    assert qp.qpn == 0x4711
    for taken in (0x4711, 0xF, 1 << 24):
        with pytest.raises(CallerError, match="is taken"):
            endpoint.create_qp(qpn=taken)
    endpoint.destroy_qp(qp)
    assert endpoint.create_qp(qpn=0x4711).qpn == 0x4711


def test_parameters_are_fixed_from_rts_on() -> None:
    qp, _ = SimFabric(Clos(spines=2)).connect("h0", "h1")
    assert qp.state == QpState.RTS
    with pytest.raises(CallerError, match="is in RTS: its parameters are fixed"):
        qp.configure(QpConfig())
    qp.to_error("over")
    with pytest.raises(CallerError, match="is in ERROR: its parameters are fixed"):
        qp.configure(QpConfig())


def test_parameters_set_before_are_those_it_uses() -> None:
    qp = Endpoint().create_qp()
    qp.configure(QpConfig(path_mtu=256), first_psn=3)
    qp.to_init()
    qp.configure(QpConfig(path_mtu=512))
    assert (qp.config.path_mtu, qp.first_psn) == (512, 3)


def test_completions_go_where_they_are_wanted() -> None:
    endpoint, got = Endpoint(), list[Completion]()
    qp = endpoint.create_qp(complete=got.append)
    qp.to_error("over")
    qp.post_write(WriteRequest(7, MemoryRegion(b"", 0, 0, remote_write=False), 0, 0, 0, 0))
    assert [(each.wr_id, each.status) for each in got] == [(7, WorkStatus.FLUSHED)]
    assert not endpoint.completions


def test_tables_of_memory_know_nothing_of_each_other() -> None:
    endpoint = Endpoint()
    first, second = endpoint.create_memory(), endpoint.create_memory()
    region = first.register(bytearray(4))
    assert first.find(region.rkey) is region
    assert second.find(region.rkey) is None
    assert endpoint.memory.find(region.rkey) is None


def test_listeners_hear_of_events_as_they_happen() -> None:
    endpoint, heard = Endpoint(), list[Event]()
    endpoint.listeners.append(heard.append)
    endpoint.set_port(1, up=False, now=5)
    assert [(each.kind, *each.values) for each in heard] == [(PORT, "local", 1, False)]
    assert not endpoint.port_is_up(1)
    assert endpoint.port_is_up(0)
    assert list(endpoint.events) == heard
