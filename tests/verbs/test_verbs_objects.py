# SPDX-License-Identifier: BSD-2-Clause
"""What a Context holds: devices, ports, memory, profiles, events; who may close what; how it all prints."""

from __future__ import annotations

import errno
import mmap
from typing import Any

import numpy as np
import pytest
from verbs_pair import INIT, Pair

from mrc.endpoint.config import Capability, QpConfig
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.errors import CallerError
from mrc.fabric import Clos
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import (
    QP,
    AccessFlag,
    AsyncEventType,
    Context,
    DeviceCap,
    PortState,
    ProtocolVersion,
    QPAttr,
    QPCap,
    QpHint,
    QPState,
    SendWR,
    VerbsError,
    connect,
    describe,
)
from mrc.wire.entropy import EvMode

ALL = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
NONE = AccessFlag(0)


def refused(number: int, text: str) -> Any:
    """A VerbsError with this errno and text."""

    def check(error: VerbsError) -> bool:
        return error.errno == number

    class Refused:
        def __enter__(self) -> None:
            self._raises = pytest.raises(VerbsError, match=text)
            self._caught = self._raises.__enter__()

        def __exit__(self, *exc: Any) -> Any:
            done = self._raises.__exit__(*exc)
            assert check(self._caught.value)
            return done

    return Refused()


@pytest.fixture
def pair() -> Pair:
    return Pair()


# ------------------------------------------------------------------ device and ports


def test_what_a_device_can_do(pair: Pair) -> None:
    attr = pair.left.context.query_device()
    assert attr.name == "h0"
    assert attr.protocol_version == ProtocolVersion.MRC_1 == 0b1
    assert attr.caps == DeviceCap.TRIM_NACK | DeviceCap.DYNAMIC_MPR | DeviceCap.SVC_TIME
    # behaviour.md: minimum capability MPR 8 (1024 PSNs), 32 writes with immediate.
    assert attr.mpr_resolution == 1
    assert attr.max_mpr >= 8
    assert attr.max_wimm >= 32
    assert attr.max_wimm_dest >= 32
    assert attr.phys_port_cnt == 2


def test_ports_are_counted_from_one_and_tell_their_state(pair: Pair) -> None:
    context = pair.left.context
    ports = [context.query_port(number) for number in (1, 2)]
    assert [(port.port_num, port.plane, port.state) for port in ports] == [
        (1, 0, PortState.ACTIVE),
        (2, 1, PortState.ACTIVE),
    ]
    pair.fabric.cut("h0-p1l0")
    assert context.query_port(2).state == PortState.DOWN
    assert context.query_port(1).state == PortState.ACTIVE


@pytest.mark.parametrize("number", [0, 3, -1, "1"])
def test_other_ports_do_not_exist(pair: Pair, number: int) -> None:
    with refused(errno.ENOENT, "there are 1 to 2"):
        pair.left.context.query_port(number)


def test_a_port_that_goes_and_comes_is_two_events(pair: Pair) -> None:
    pair.fabric.cut("h0-p1l0")
    pair.fabric.heal("h0-p1l0")
    context = pair.left.context
    events = [context.get_async_event(timeout=0) for _ in range(2)]
    assert [(event.event_type, event.element) for event in events] == [
        (AsyncEventType.PORT_ERR, 2),
        (AsyncEventType.PORT_ACTIVE, 2),
    ]
    with refused(errno.EAGAIN, "nothing has happened"):
        context.get_async_event(timeout=0)
    with refused(errno.EAGAIN, "nothing has happened"):
        pair.right.context.get_async_event(timeout=0)


def test_an_unknown_host_has_no_device() -> None:
    with pytest.raises(ValueError, match="no host 'h7'"):
        SimDevice(SimFabric(Clos()), "h7")


# ------------------------------------------------------------------ memory


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(100),
        mmap.mmap(-1, 100),
        np.zeros(100, np.uint8),
        np.zeros((5, 5), np.float32),
        memoryview(bytearray(100)),
    ],
    ids=["bytearray", "mmap", "numpy", "numpy-2d", "memoryview"],
)
def test_any_writable_contiguous_buffer_is_memory(pair: Pair, buffer: Any) -> None:
    with pair.left.pd.mr(buffer) as mr:
        assert mr.length == 100
        assert mr.addr > 0
        assert mr.rkey == mr.lkey != 0
        assert (mr.remote.addr, mr.remote.length, mr.remote.rkey) == (mr.addr, 100, mr.rkey)


def test_memory_lies_where_its_owner_says(pair: Pair) -> None:
    mr = pair.left.pd.mr(bytearray(16), iova=0x1000)
    assert mr.addr == 0x1000
    assert mr.sge(4).addr == 0x1004
    assert mr.sge(4).length == 12


def test_read_only_memory_is_for_reading(pair: Pair) -> None:
    assert pair.left.pd.mr(b"12345", NONE).length == 5
    for access in (AccessFlag.LOCAL_WRITE, ALL):
        with refused(errno.EINVAL, "read-only"):
            pair.left.pd.mr(b"12345", access)


def test_remote_write_needs_local_write(pair: Pair) -> None:
    with refused(errno.EINVAL, "REMOTE_WRITE needs LOCAL_WRITE"):
        pair.left.pd.mr(bytearray(5), AccessFlag.REMOTE_WRITE)


@pytest.mark.parametrize(
    "buffer", [np.zeros(20, np.uint8)[::2], "text", 5, None], ids=["strided", "text", "number", "nothing"]
)
def test_what_is_no_memory_is_refused(pair: Pair, buffer: Any) -> None:
    with pytest.raises(VerbsError) as caught:
        pair.left.pd.mr(buffer)
    assert caught.value.errno == errno.EINVAL


def test_memory_that_posted_work_reads_from_stays(pair: Pair) -> None:
    pair.connect()
    source, target, _ = pair.memory(bytes(5000))
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    with refused(errno.EBUSY, "posted work still reads"):
        source.close()
    pair.left.poll_all(1)
    source.close()
    source.close()
    with refused(errno.EINVAL, "names no region"):
        pair.left.qp.post_send(SendWR(2, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))


def test_a_closed_region_gives_its_buffer_back(pair: Pair) -> None:
    buffer = bytearray(10)
    mr = pair.left.pd.mr(buffer)
    with pytest.raises(BufferError):
        buffer.extend(b"x")
    mr.close()
    buffer.extend(b"x")


# ------------------------------------------------------------------ who may close what


def test_things_in_use_stay_open(pair: Pair) -> None:
    end = pair.left
    mr = end.pd.mr(bytearray(4))
    with refused(errno.EBUSY, "1 regions and 1 QPs"):
        end.pd.close()
    with refused(errno.EBUSY, "1 QPs use the completion queue"):
        end.cq.close()
    end.qp.close()
    mr.close()
    end.pd.close()
    end.cq.close()
    end.channel.close()
    end.context.close()
    for thing in (end.qp, mr, end.pd, end.cq, end.channel, end.context):
        thing.close()


def test_a_context_takes_everything_with_it(pair: Pair) -> None:
    pair.connect()
    source, target, _ = pair.memory(bytes(5000))
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    endpoint = pair.left.context.device.endpoint
    pair.left.context.close()
    assert endpoint.qps == {}
    assert endpoint.listeners == []
    for make in (
        lambda: pair.left.context.pd(),
        lambda: pair.left.context.cq(1),
        lambda: pair.left.context.comp_channel(),
        lambda: pair.left.pd.mr(bytearray(1)),
        lambda: QP(pair.left.pd, send_cq=pair.left.cq, recv_cq=pair.left.cq),
    ):
        with refused(errno.EINVAL, "closed"):
            make()


def test_a_qp_of_a_pd_that_is_closed_meanwhile_is_refused_and_leaves_nothing(pair: Pair) -> None:
    """Between the call and the endpoint's turn the PD is closed, as a server does when its client is gone."""
    pd, device = pair.left.context.pd(), pair.left.context.device
    call, before = device.call, dict(device.endpoint.qps)

    def closed_first(action: Any) -> Any:
        pd.close()
        return call(action)

    device.call = closed_first  # type: ignore[method-assign]
    with refused(errno.EINVAL, "the protection domain is closed"):
        QP(pd, send_cq=pair.left.cq, recv_cq=pair.left.cq)
    assert device.endpoint.qps == before
    assert pd.qps == set()


def test_a_region_of_a_pd_that_is_closed_meanwhile_is_refused_and_leaves_nothing(pair: Pair) -> None:
    pd = pair.left.context.pd()
    register, made = pd.register, []

    def closed_after(*args: Any) -> Any:
        made.append(register(*args))
        pd.close()
        return made[0]

    pd.register = closed_after  # type: ignore[method-assign]
    with refused(errno.EINVAL, "the protection domain is closed"):
        pd.mr(bytearray(8))
    (region,) = made
    assert pd.mrs == []
    with pytest.raises(CallerError):
        pd.memory.deregister(region)


def test_everything_is_a_context_manager() -> None:
    device = SimDevice(SimFabric(Clos()), "h0")
    with (
        Context(device) as context,
        context.pd() as pd,
        context.comp_channel() as channel,
        context.cq(4, channel=channel) as cq,
        pd.mr(bytearray(8)),
        QP(pd, send_cq=cq, recv_cq=cq),
    ):
        assert len(device.endpoint.qps) == 1
    assert device.endpoint.qps == {}
    assert context.pds == context.cqs == context.channels == set()


def test_queues_of_another_context_are_refused(pair: Pair) -> None:
    with refused(errno.EINVAL, "another context's"):
        QP(pair.left.pd, send_cq=pair.right.cq, recv_cq=pair.left.cq)
    with refused(errno.EINVAL, "another context's"):
        pair.left.context.cq(4, channel=pair.right.channel)


# ------------------------------------------------------------------ profiles


def test_profiles_are_known_by_number(pair: Pair) -> None:
    context = pair.left.context
    made: list[FixedWindow] = []

    def small(sizes: Any) -> FixedWindow:
        made.append(FixedWindow(sizes, FixedWindowConfig(2)))
        return made[-1]

    context.cc_profile(7, small)
    profile = EvProfile(EvProfileMode.EXPLICIT, EvFormat(EvMode.SRV6), evs=(1, 1 << 24, 1 << 24 | 1), min_active=3)
    context.ev_profile(9, profile)
    pair.left.qp.modify(QPAttr(qp_state=QPState.INIT, ev_profile_id=9, cc_profile_id=7))
    pair.connect()
    assert pair.left.qp.endpoint_qp.config.paths.ev_min_active == 3
    # Uplink 1 of plane 0, uplinks 0 and 1 of plane 1 (wire.md section 11).
    assert [(path.plane, path.spine) for path in pair.left.qp.endpoint_qp.paths.paths] == [(0, 1), (1, 0), (1, 1)]
    assert len(pair.right.qp.endpoint_qp.paths.paths) == 4
    assert pair.left.qp.endpoint_qp.controller is made[0]
    assert pair.right.qp.endpoint_qp.config.paths.ev_min_active is None


def test_unknown_profiles_are_refused(pair: Pair) -> None:
    for name, kind in (("ev_profile_id", "EV"), ("cc_profile_id", "congestion control")):
        with refused(errno.ENOENT, f"no {kind} profile 5: there are 0"):
            pair.left.qp.modify(QPAttr(qp_state=QPState.INIT, **(INIT | {name: 5})))
    assert pair.left.qp.state == QPState.RESET
    with refused(errno.ENOENT, "no congestion controller 'best'"):
        pair.left.context.cc_profile(1, "best")


@pytest.mark.parametrize("number", [0, -1, 1 << 16, "1"])
def test_profile_numbers_have_a_range(pair: Pair, number: int) -> None:
    with refused(errno.EINVAL, "a profile's number is 1..65535"):
        pair.left.context.cc_profile(number, "fixed")
    with refused(errno.EINVAL, "a profile's number is 1..65535"):
        pair.left.context.ev_profile(number, EvProfile.auto(EvMode.SRV6))


def test_a_profile_number_is_given_once(pair: Pair) -> None:
    pair.left.context.cc_profile(1, "fixed")
    with refused(errno.EBUSY, "there is a profile 1 already"):
        pair.left.context.cc_profile(1, "fixed")


# ------------------------------------------------------------------ parameters


def test_tuning_sets_what_no_attribute_does_and_connect_is_not_given() -> None:
    tuning = QpConfig(sack_threshold_bytes=2048, capabilities=Capability.TRIM_NACK, timeout=3, linear_retries=2)
    pair = Pair(tuning=tuning)
    ours, theirs = describe(pair.left.qp), describe(pair.right.qp)
    connect(pair.left.qp, ours, theirs, timeout=9)
    config = pair.left.qp.endpoint_qp.config
    assert config.sack_threshold_bytes == 2048
    assert config.capabilities == Capability.TRIM_NACK
    assert (config.timeout, config.linear_retries, config.exponential_retries) == (9, 2, 7)


@pytest.mark.parametrize("name", ["max_send_wr", "max_recv_wr", "max_inline_data"])
@pytest.mark.parametrize("value", [-1, 1 << 30, 1.5])
def test_sizes_of_queues_have_bounds(name: str, value: int) -> None:
    with refused(errno.EINVAL, f"{name} must be"):
        QPCap(**{name: value})


def test_hints_fit_32_bits() -> None:
    with refused(errno.EINVAL, "num_send_peers must fit 32 bits"):
        QpHint(num_send_peers=1 << 32)


# ------------------------------------------------------------------ for people


def test_everything_prints_as_a_labelled_table(pair: Pair) -> None:
    pair.connect()
    end = pair.left
    things = (
        end.context,
        end.context.query_device(),
        end.context.query_port(1),
        end.pd,
        end.pd.mr(bytearray(1)),
        end.channel,
        end.cq,
        end.qp,
        end.qp.query(),
        end.qp.cap,
        describe(end.qp),
        SendWR(),
    )
    for thing in things:
        title, *rows = str(thing).splitlines()
        assert title == type(thing).__name__
        assert rows
        assert len({row.index(" : ") for row in rows}) == 1
    assert "state                : RTS" in str(end.qp)
    assert "caps             : TRIM_NACK|DYNAMIC_MPR|SVC_TIME" in str(end.context.query_device())
    assert "ah_attr             : node {'host': 'h1'}" in str(end.qp.query())
