# SPDX-License-Identifier: BSD-2-Clause
"""The endpoint behind the C libraries: what they ask is answered here (mrc/capi/src/calls.h).

All contexts of a process share one device. Work that is posted and work that ends does not come here: it goes through
rings in the program's memory (mrc.endpoint.work_rings).
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrc.capi.calls import CALL_WORDS, NOT_GIVEN, Call, ControlWord, EventsWord, Modify, Mrc, OperateWord
from mrc.capi.gids import Peers, gid_of
from mrc.endpoint.config import PATH_MTUS, QpConfig
from mrc.endpoint.doorbells import BELL_WORDS, TURNER
from mrc.errors import MrcError
from mrc.net.device import NodeDevice, open_device, transfer_config
from mrc.net.negotiation import NodeDescription
from mrc.verbs import (
    CQ,
    MR,
    PD,
    QP,
    AccessFlag,
    AHAttr,
    Context,
    DeviceCap,
    PortState,
    QPAttr,
    QPCap,
    QpHint,
    QPState,
    VerbsError,
)
from mrc.verbs.transitions import DEFAULTS, USUAL_CAPABILITIES
from mrc.wire import octets

if TYPE_CHECKING:
    from mrc.capi.control import CControl
    from mrc.capi.control_operations import CEndpointOperations

ADDRESSES_VARIABLE = "MRC_ADDRESSES"
# A peer that has not heard that its last write arrived asks again: for so long a QP that is destroyed answers.
_DRAIN_S = 0.5
_DRAIN_AGAIN_S = 0.01
_ATTRIBUTES = {
    Modify.EV_PROFILE: "ev_profile_id",
    Modify.CC_PROFILE: "cc_profile_id",
    Modify.DEST_QPN: "dest_qp_num",
    Modify.RQ_PSN: "rq_psn",
    Modify.SQ_PSN: "sq_psn",
    Modify.TIMEOUT: "timeout",
    Modify.LINEAR: "linear_retries",
    Modify.EXPONENTIAL: "exponential_retries",
    Modify.MPR: "mpr",
    Modify.MPR_DEST: "mpr_dest",
    Modify.WIMM: "max_wimm",
    Modify.WIMM_DEST: "max_wimm_dest",
}

# What is no fault of anybody's is not told of on stderr.
_USUAL = {(Call.ASYNC_EVENT, errno.EAGAIN), (Call.OPERATE, errno.ETIMEDOUT)}

Words = Any  # a ctypes array of signed 64-bit words


def _program() -> str:
    try:
        return Path("/proc/self/comm").read_text().strip()
    except OSError:
        return "program"


def _tuning() -> QpConfig:
    """That of transfers. A silent peer is given up after as many timeouts in a row as by MRC's defaults, however many
    retries trimmed packets have (`exponential_retries`, by the library)."""
    usual = DEFAULTS[QPState.RTS]
    timeouts = usual["linear_retries"] + usual["exponential_retries"]
    return replace(transfer_config(path_mtu=max(PATH_MTUS)), timeout_retries=timeouts)


class Host:
    """The one device of this process, and what was made on it, by handles."""

    def __init__(self) -> None:
        self._handles = itertools.count(1)
        self._objects: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._closing = ExitStack()
        self._device: NodeDevice | None = None
        self._peers: Peers | None = None
        self._controls: tuple[CControl, CEndpointOperations] | None = None
        self._in_vain_until = 0  # ns: see _drain
        self._answers: dict[int, Callable[[Words], None]] = {
            Call.OPEN: self._open,
            Call.CLOSE: self._close,
            Call.QUERY_PORT: self._query_port,
            Call.QUERY_GID: self._query_gid,
            Call.ALLOC_PD: self._alloc_pd,
            Call.DEALLOC_PD: self._close_object,
            Call.REG_MR: self._reg_mr,
            Call.DEREG_MR: self._close_object,
            Call.CREATE_QP: self._create_qp,
            Call.MODIFY_QP: self._modify_qp,
            Call.DESTROY_QP: self._destroy_qp,
            Call.ASYNC_EVENT: self._async_event,
            Call.QUERY_MRC: self._query_mrc,
            Call.QUERY_QP: self._query_qp,
            Call.CONTROL: self._control,
            Call.EV_EVENTS: self._ev_events,
            Call.END_EV_EVENTS: self._close_object,
            Call.OPERATE: self._operate,
        }

    def answer(self, what: int, words: Words) -> int:
        """Do what is asked. Returns an errno, after a line on stderr that says why."""
        try:
            self._answers[what](words)
        except MrcError as error:
            number = getattr(error, "errno", None) or errno.EIO
            if (what, number) not in _USUAL:
                print(f"mrc: {Call(what).name.lower()}: {error}", file=sys.stderr)
            return int(number)
        except Exception as error:
            print(f"mrc: {Call(what).name.lower()}: {error!r}", file=sys.stderr)
            return errno.EIO
        return 0

    def _keep(self, made: Any) -> int:
        with self._lock:
            handle = next(self._handles)
            self._objects[handle] = made
        return handle

    def _found(self, handle: int, kind: type) -> Any:
        found = self._objects.get(handle)
        if not isinstance(found, kind):
            raise VerbsError(errno.EINVAL, f"there is no such {kind.__name__}: it is closed, or no pointer to one")
        return found

    # ------------------------------------------------------------------ the device

    def _open(self, words: Words) -> None:
        with self._lock:
            if self._device is None:
                self._device = self._opened(words[0])
        context = Context(self._device)
        words[0], words[1] = self._keep(context), context.async_fd

    def _opened(self, bells: int) -> NodeDevice:
        named = os.environ.get(ADDRESSES_VARIABLE, "")
        addresses = [each.strip() for each in named.split(",") if each.strip()]
        device = self._closing.enter_context(open_device(addresses=addresses, tuning=_tuning(), program=_program()))
        driver = device.node.driver
        driver.have_doorbells(bells)
        # In the loop's thread.
        driver.call_soon(lambda: _say_who_turns(bells))
        self._peers = Peers(device.node.fabric, device.node.description)
        return device

    def _close(self, words: Words) -> None:
        context = self._found(words[0], Context)
        if context.pds:
            raise VerbsError(errno.EBUSY, f"{len(context.pds)} protection domains are open")
        context.close()
        del self._objects[words[0]]

    def _query_port(self, words: Words) -> None:
        context: Context = self._found(words[0], Context)
        if words[1] != 1:
            raise VerbsError(errno.EINVAL, f"the device has port 1, not {words[1]}: all planes are behind it")
        # All planes are one port to libibverbs. It is up while any of them is.
        ports = [context.query_port(number + 1) for number in range(context.query_device().phys_port_cnt)]
        words[0] = PortState.ACTIVE if any(each.state is PortState.ACTIVE for each in ports) else PortState.DOWN
        words[1] = PATH_MTUS.index(min(each.max_mtu for each in ports)) + 1

    def _query_gid(self, words: Words) -> None:
        device: NodeDevice = self._found(words[0], Context).device
        ctypes.memmove(words[2], gid_of(device.node.fabric.ports[0].address), 16)

    def _query_mrc(self, words: Words) -> None:
        device = self._found(words[0], Context).query_device()
        words[Mrc.VERSION] = int(device.protocol_version)
        words[Mrc.CAPS] = int(device.caps)
        words[Mrc.MOST_WIMM], words[Mrc.MOST_WIMM_DEST] = device.max_wimm, device.max_wimm_dest
        words[Mrc.MOST_MPR], words[Mrc.MPR_RESOLUTION] = device.max_mpr, device.mpr_resolution

    # ------------------------------------------------------------------ controllers

    def _controller(self, handle: int) -> tuple[CControl, CEndpointOperations]:
        device: NodeDevice = self._found(handle, Context).device
        with self._lock:
            if self._controls is None:
                # Few programs are controllers, and the modules take long to import.
                from mrc.capi.control import CControl
                from mrc.capi.control_operations import CEndpointOperations
                from mrc.control import Controller

                controller = Controller(device)
                self._controls = CControl(controller), CEndpointOperations(controller, device.node.store)
        return self._controls

    def _control(self, words: Words) -> None:
        control, _ = self._controller(words[ControlWord.CONTEXT])
        number = words[ControlWord.NUMBER] & (1 << 64) - 1
        control.call(words[ControlWord.WHAT], number, words[ControlWord.ATTR], words[ControlWord.MASK])

    def _ev_events(self, words: Words) -> None:
        _, operations = self._controller(words[EventsWord.CONTEXT])
        words[0] = self._keep(operations.ev_events(words[EventsWord.QUEUE], words[EventsWord.PUT]))

    def _operate(self, words: Words) -> None:
        _, operations = self._controller(words[OperateWord.CONTEXT])
        kind, requests, count, answers, dscp, timeout_ns = words[OperateWord.KIND : OperateWord.TIMEOUT + 1]
        words[OperateWord.COUNT] = 0
        words[OperateWord.COUNT], error = operations.send(kind, requests, count, answers, dscp, timeout_ns)
        if error is not None:
            raise error

    def _async_event(self, words: Words) -> None:
        # The library waits: what its completion queues have lost only it knows.
        event = self._found(words[0], Context).get_async_event(0)
        words[0] = int(event.event_type)
        words[1] = event.element.qp_num if isinstance(event.element, QP) else 1

    # ------------------------------------------------------------------ memory

    def _alloc_pd(self, words: Words) -> None:
        words[0] = self._keep(self._found(words[0], Context).pd())

    def _reg_mr(self, words: Words) -> None:
        pd, address, length, iova, access = words[:5]
        buffer = (ctypes.c_char * length).from_address(address)
        flags = AccessFlag(access)
        mr = MR(self._found(pd, PD), buffer, flags, iova=iova)
        words[0], words[1] = self._keep(mr), mr.lkey

    def _close_object(self, words: Words) -> None:
        self._found(words[0], object).close()
        del self._objects[words[0]]

    # ------------------------------------------------------------------ QPs

    def _create_qp(self, words: Words) -> None:
        pd: PD = self._found(words[0], PD)
        # Nothing is completed here.
        none = CQ(pd.context, 1)
        cap = QPCap(max_send_wr=words[2], max_recv_wr=words[3])
        qp = QP(pd, send_cq=none, recv_cq=none, cap=cap, rings=words[1])
        words[0], words[1] = self._keep(qp), qp.qp_num

    def _modify_qp(self, words: Words) -> None:
        qp: QP = self._found(words[Modify.QP], QP)
        given: dict[str, Any] = {name: words[place] for place, name in _ATTRIBUTES.items() if words[place] != NOT_GIVEN}
        if words[Modify.PATH_MTU] != NOT_GIVEN:
            if not 1 <= words[Modify.PATH_MTU] <= len(PATH_MTUS):
                raise VerbsError(errno.EINVAL, f"path_mtu {words[Modify.PATH_MTU]} is none of ibv_mtu")
            given["path_mtu"] = PATH_MTUS[words[Modify.PATH_MTU] - 1]
        if words[Modify.DYNAMIC_MPR] != NOT_GIVEN:
            given["dynamic_mpr"] = bool(words[Modify.DYNAMIC_MPR])
        if words[Modify.DEST_CAPS] != NOT_GIVEN:
            given["dest_caps"] = DeviceCap(words[Modify.DEST_CAPS])
        if words[Modify.GID] != NOT_GIVEN:
            traffic_class = words[Modify.TRAFFIC_CLASS]
            node = self._peer(ctypes.string_at(words[Modify.GID], 16)).to_json()
            given["ah_attr"] = AHAttr(node, None if traffic_class == NOT_GIVEN else traffic_class)
        if words[Modify.QPS_PER_PEER] != NOT_GIVEN:
            given["hint"] = QpHint(
                words[Modify.QPS_PER_PEER], words[Modify.SEND_PEERS], words[Modify.REMOTE_RECV_PEERS]
            )
        qp.modify(QPAttr(qp_state=QPState(words[Modify.STATE]), **given))

    def _query_qp(self, words: Words) -> None:
        attributes: QPAttr = self._found(words[Modify.QP], QP).query()
        usual = {name: value for each in DEFAULTS.values() for name, value in each.items()}
        for place, name in _ATTRIBUTES.items():
            value = getattr(attributes, name)
            words[place] = usual.get(name, 0) if value is None else value
        words[Modify.DYNAMIC_MPR] = int(bool(attributes.dynamic_mpr))
        words[Modify.DEST_CAPS] = int(USUAL_CAPABILITIES if attributes.dest_caps is None else attributes.dest_caps)

    def _peer(self, gid: bytes) -> NodeDescription:
        if self._peers is None:
            raise VerbsError(errno.EINVAL, "the device is not open")
        return self._peers.find(gid)

    def _destroy_qp(self, words: Words) -> None:
        qp: QP = self._found(words[0], QP)
        if qp.state in (QPState.RTR, QPState.RTS):
            self._drain(qp)
        cq = qp.send_cq
        qp.close()
        cq.close()
        del self._objects[words[0]]

    def _drain(self, qp: QP) -> None:
        """Let it answer its peer for a while. QPs that are destroyed one after the other answer at the same time: one
        whose peer has long been silent, in the middle of a message, is not waited for, and after a wait in vain hardly
        any."""
        device = qp.context.device
        now, asked_at = device.now(), device.call(lambda: qp.figures.asked_at_ns)
        patience_s = _DRAIN_S if asked_at < 0 else max(0.0, _DRAIN_S - (now - asked_at) / 1e9)
        if now < self._in_vain_until:
            patience_s = min(patience_s, _DRAIN_AGAIN_S)
        try:
            qp.drain(patience_s)
        except VerbsError:  # the peer goes on, or is gone
            if patience_s > 0:
                self._in_vain_until = device.now() + int(_DRAIN_S * 1e9)


def _say_who_turns(bells: int) -> None:
    octets.words_at(bells, BELL_WORDS)[TURNER] = threading.get_native_id()


_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_kept: list[Any] = []


def fill(place: int) -> None:
    """Write the address of the function to call where the library wants it."""
    host = Host()

    def call(what: int, address: int) -> int:
        return host.answer(what, (ctypes.c_longlong * CALL_WORDS).from_address(address))

    function = _CALL(call)
    _kept.append((host, function))
    ctypes.c_void_p.from_address(place).value = ctypes.cast(function, ctypes.c_void_p).value
