# SPDX-License-Identifier: BSD-2-Clause
"""One direction of one link: what is wrong with it, changed while traffic runs and read back from the kernel.

At the sending end: the delay, the queue (a token bucket and what is below it) and in front of it the eBPF program. At
the receiving end: the loss. Nothing is remembered elsewhere: any process that asks later finds it there.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mrc.errors import SystemRefused
from mrc.fabric.impairment import Impairment
from mrc.lab import installed, messages
from mrc.lab.bpf import EbpfRefused, LinkCounters, LinkProgram, LinkSettings
from mrc.lab.impairment import delay, loss, netem
from mrc.lab.impairment import traffic_control as tc
from mrc.lab.netlink import NetlinkSocket, Request

# Handles of our own, "MR" and what follows: they distinguish our disciplines from others on the interface.
_ROOT, _BANDS, _FAST_FIFO, _DATA_FIFO = 0x4D520000, 0x4D530000, 0x4D540000, 0x4D550000
_BELOW_ROOT = _ROOT | 1
_FAST_CLASS, _DATA_CLASS = _BANDS | 1, _BANDS | 2
_UNLIMITED_BPS = 8 * 10**12
_ETHERNET_BYTES = 14
# After a pause a link sends at once what takes so long at its rate: a timer may be late by as much at no loss.
_BURST_S = 0.001
_BURST_FRAMES = 2
# How much longer the queues are than what the program lets in: they hold what a late timer has not sent yet.
_SPARE_BYTES = 1_000_000
_PROGRAM_NAME = "mrc-link"


@dataclass(frozen=True, slots=True)
class Direction:
    """Where to act. `route` is a netlink socket at the sending node, `index` and `sending` are its interface; `filters`
    gives a netfilter socket at the receiving node, `receiving` is its interface. `last_hop`: toward a host. `mtu`: the
    fabric's, in bytes. `inside` runs a function at the sending node; a delay ends when `lab_file` is gone."""

    route: NetlinkSocket
    index: int
    sending: str
    filters: Callable[[], NetlinkSocket]
    receiving: str
    last_hop: bool
    mtu: int
    inside: delay.Inside
    lab_file: Path

    def burst_bytes(self, rate_bps: int) -> int:
        return max(_BURST_FRAMES * (self.mtu + _ETHERNET_BYTES), int(rate_bps / 8 * _BURST_S))


@dataclass(frozen=True, slots=True)
class Sending:
    """What is installed at a sending end: our queue, our delay in the kernel above it, our hook, the number of our eBPF
    program (0: none), and the kind of a queue of another program, empty when there is none."""

    root: tc.Discipline | None = None
    held: tc.Discipline | None = None
    foreign: str = ""
    has_bands: bool = False
    has_hook: bool = False
    program: int = 0

    @property
    def above_queue(self) -> int:
        """What our queue hangs below."""
        return netem.BELOW if self.held is not None else tc.ROOT


@dataclass(frozen=True, slots=True)
class SendingFigures:
    """What a sending end does (without the loss) and has done. `counters` are None where no eBPF program counts."""

    impairment: Impairment
    counters: LinkCounters | None
    queue_dropped_packets: int
    waiting_bytes: int


def sending_ends(route: NetlinkSocket, only: int | None = None) -> dict[int, Sending]:
    """By interface index, what is installed on the interfaces of a node (or on one of them). Raises SystemRefused."""
    found: dict[int, Sending] = {}

    def collect(_: int, data: bytes) -> None:
        each = tc.parse_discipline(data)
        before = found.get(each.index, Sending())
        if each.handle == _ROOT and each.kind == "tbf":
            found[each.index] = replace(before, root=each)
        elif each.handle == netem.HANDLE and each.kind == netem.KIND:
            found[each.index] = replace(before, held=each)
        elif each.handle == _BANDS and each.kind == "htb":
            found[each.index] = replace(before, has_bands=True)
        elif each.is_clsact:
            found[each.index] = replace(before, has_hook=True)
        elif each.parent == tc.ROOT and each.handle:
            found[each.index] = replace(before, foreign=each.kind)

    route.dump("read the queues of a node", tc.dump_disciplines(), collect)
    if only is not None:
        found = {only: found.get(only, Sending())}
    return {
        index: replace(sending, program=program_of(route, index)) if sending.has_hook else sending
        for index, sending in found.items()
    }


def program_of(route: NetlinkSocket, index: int, *, egress: bool = True) -> int:
    """The number of our eBPF program for what leaves by an interface, or for what arrives there; 0 for none.

    Raises SystemRefused.
    """
    ours = 0

    def collect(_: int, data: bytes) -> None:
        nonlocal ours
        is_ours, number = tc.parse_filter(data)
        ours = number if is_ours else ours

    route.dump("read the filters of a node", tc.dump_filters(index, egress=egress), collect)
    return ours


def leaves_freely(route: NetlinkSocket, index: int) -> bool:
    """Whether no queue and no filter, ours or another's, sees what leaves by an interface. Raises SystemRefused."""
    sending = sending_ends(route, index)[index]
    return not (sending.root or sending.held or sending.foreign or _filters(route, index, egress=True))


def figures(sending: Sending) -> SendingFigures:
    """Raises SystemRefused."""
    root = sending.root
    dropped, waiting = (root.dropped_packets, root.backlog_bytes) if root is not None else (0, 0)
    if sending.program:
        try:
            with LinkProgram.by_id(sending.program) as program:
                impairment, counters = program.impairment(), program.counters()
            return SendingFigures(impairment, counters, dropped + counters.dropped_packets, waiting)
        except SystemRefused as error:
            # Another process has taken it off since.
            if error.errno != errno.ENOENT:
                raise
    return SendingFigures(_by_queue_alone(root), None, dropped, waiting)


def _by_queue_alone(root: tc.Discipline | None) -> Impairment:
    if root is None:
        return Impairment()
    chosen = Impairment(rate_bps=root.rate_bps)
    said = 0 if root.limit_bytes == chosen.limit_bytes else root.limit_bytes
    return replace(chosen, queue_bytes=said)


def read(direction: Direction) -> Impairment:
    """What this direction is like now. Raises SystemRefused."""
    sending = _sending(direction)
    return _with_others(direction, sending, figures(sending).impairment)


def delays(
    interfaces: Mapping[int, installed.InterfaceFound], sending: Mapping[int, Sending]
) -> dict[int, delay.DelayFound]:
    """By the index of the sending interface, the delays of a node, in a relay or in the kernel."""
    found = delay.of(interfaces)
    for index, each in sending.items():
        if each.held is not None:
            found[index] = netem.found(each.held, each.root)
    return found


def _sending(direction: Direction) -> Sending:
    return sending_ends(direction.route, direction.index)[direction.index]


def _with_others(direction: Direction, sending: Sending, found: Impairment) -> Impairment:
    """`found`, which is of queue and program, with what the interfaces, netem and nftables say."""
    there = installed.interfaces(direction.route, direction.sending)
    port = there.get(direction.index)
    mtu = port.mtu if port is not None and port.mtu != direction.mtu else 0
    delayed = delays(there, {direction.index: sending}).get(direction.index, delay.NO_DELAY)
    return replace(found, loss=_loss(direction), mtu_bytes=mtu, **delayed.settings)


def _set_mtu(direction: Direction, mtu: int) -> None:
    direction.route.transact([messages.link_mtu(direction.index, direction.sending, mtu or direction.mtu)])


def _loss(direction: Direction) -> float:
    found = found_losses(direction.filters())
    return next((each.share for each in found if each.interface == direction.receiving), 0.0)


def found_losses(filters: NetlinkSocket) -> list[loss.Loss]:
    """Every loss installed at a node; none where the kernel has no nftables."""
    try:
        return loss.installed(filters)
    except SystemRefused:
        # Without nftables in the kernel nothing can be lost.
        return []


def change(directions: Sequence[Direction], **changes: float | int | None) -> None:
    """Give each of these the fields of Impairment that are not None; the others stay.

    Raises CallerError, and changes nothing, for values that make no sense together or with what is there;
    SystemRefused, with nothing new left in the direction it concerns.
    """
    planned = []
    for each in directions:
        sending = _sending(each)
        before = _with_others(each, sending, figures(sending).impairment)
        wanted = before.changed(**changes)
        if wanted.rate_bps and sending.foreign:
            raise SystemRefused(
                f"{each.sending} has another queue already, a {sending.foreign}: remove it with "
                f"`tc qdisc del dev {each.sending} root` in that namespace"
            )
        planned.append((each, sending, before, wanted))
    for each, sending, before, wanted in planned:
        if _of_queues(wanted) != _of_queues(before) or not _is_whole(sending, before):
            _change_sending(each, sending, wanted)
        if wanted.loss != before.loss:
            _set_loss(each, wanted.loss)
        if wanted.mtu_bytes != before.mtu_bytes:
            _set_mtu(each, wanted.mtu_bytes)
        if _delayed(wanted) != _delayed(before):
            _set_delay(each, wanted)


def _of_queues(found: Impairment) -> Impairment:
    """What queue and program see to: all but the loss, the MTU and the delay."""
    return replace(found, loss=0, mtu_bytes=0, **dict.fromkeys(delay.FIELDS, 0))


def _delayed(found: Impairment) -> tuple[float, ...]:
    return tuple(getattr(found, name) for name in delay.FIELDS)


def _is_whole(sending: Sending, found: Impairment) -> bool:
    """Whether queue and program are both there, or neither: not so when a process was killed between the two."""
    has_queue = sending.root is not None
    return has_queue == bool(found.rate_bps) and (not has_queue or sending.has_bands == bool(sending.program))


def clear(direction: Direction) -> None:
    """Nothing is wrong with this direction any more. No error when nothing was. Raises SystemRefused."""
    sending = _sending(direction)
    _remove(direction, sending)
    others = _with_others(direction, sending, Impairment())
    if others.loss:
        _set_loss(direction, 0)
    if others.mtu_bytes:
        _set_mtu(direction, 0)
    # A filter whose relay was killed has no tap, and is found by its place only.
    _set_delay(direction, Impairment())


def _set_delay(direction: Direction, wanted: Impairment) -> None:
    """In the kernel where it can, else by a relay. What a relay holds it sends in time, whatever comes after it."""
    by_kernel = netem.suits(wanted) and _hold(direction, wanted)
    if not by_kernel and _sending(direction).held is not None:
        _put_at_root(direction, tc.without(direction.index, tc.ROOT), wanted)
    relayed = Impairment() if by_kernel else wanted
    delay.change(direction.route, direction.inside, direction.index, direction.sending, direction.lab_file, relayed)
    if not any(_delayed(wanted)) and not _has_filters(direction):
        direction.route.transact([tc.without_hook(direction.index)])


def _hold(direction: Direction, wanted: Impairment) -> bool:
    """Have the kernel delay what leaves; whether it can, and no queue of another program is in its place."""
    sending = _sending(direction)
    if sending.foreign:
        return False
    if sending.held is not None:
        direction.route.transact([netem.discipline(direction.index, wanted, new=False)])
        return True
    try:
        _put_at_root(direction, netem.discipline(direction.index, wanted, new=True), wanted)
    except SystemRefused as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


def _put_at_root(direction: Direction, request: Request, wanted: Impairment) -> None:
    """Change what is at the root, and make the queue anew that this takes with it, and what waited there."""
    direction.route.transact([request])
    if wanted.rate_bps:
        sending = _sending(direction)
        _put_queue(direction, sending, wanted, bands=bool(sending.program))


def _set_loss(direction: Direction, share: float) -> None:
    if share:
        loss.install(direction.filters(), direction.receiving, share)
    else:
        loss.clear(direction.filters(), direction.receiving)


def _change_sending(direction: Direction, sending: Sending, wanted: Impairment) -> None:
    if _of_queues(wanted).is_off:
        _remove(direction, sending)
        return
    with _program(sending, wanted) as program:
        try:
            if program is not None:
                _put_program(direction, sending, program, wanted)
            _put_queue(direction, sending, wanted, bands=program is not None)
        except BaseException:
            if sending.root is None and not sending.program:
                _remove(direction, _sending(direction))
            raise


@contextmanager
def _program(sending: Sending, wanted: Impairment) -> Iterator[LinkProgram | None]:
    """The program that is there, or a new one; none where eBPF is refused and the queue does all that is wanted."""
    try:
        program = LinkProgram.by_id(sending.program) if sending.program else LinkProgram.load()
    except EbpfRefused:
        # The queue alone does rate and length.
        by_queue = Impairment(rate_bps=wanted.rate_bps, queue_bytes=wanted.queue_bytes)
        if _of_queues(wanted) != by_queue:
            raise
        yield None
        return
    with program:
        yield program


def _put_program(direction: Direction, sending: Sending, program: LinkProgram, wanted: Impairment) -> None:
    program.set(
        LinkSettings(
            wanted,
            wanted.limit_bytes,
            direction.burst_bytes(wanted.rate_bps),
            direction.last_hop,
            _FAST_CLASS,
        )
    )
    if not sending.program:
        direction.route.transact(
            [tc.hook(direction.index), tc.program_filter(direction.index, program.descriptor, _PROGRAM_NAME)]
        )


def _put_queue(direction: Direction, sending: Sending, wanted: Impairment, *, bands: bool) -> None:
    index, rate, limit = direction.index, wanted.rate_bps, wanted.limit_bytes
    requests = []
    there = sending.root is not None
    if there and (not rate or sending.has_bands != bands):
        requests.append(tc.without(index, sending.above_queue))
        there = False
    if rate:
        burst = direction.burst_bytes(rate)
        requests.append(tc.token_bucket(index, _ROOT, sending.above_queue, rate, burst, limit, new=not there))
        if bands and not there:
            requests += [
                tc.bands(index, _BANDS, _BELOW_ROOT, _DATA_CLASS),
                tc.band(index, _FAST_CLASS, 0, _UNLIMITED_BPS),
                tc.band(index, _DATA_CLASS, 1, _UNLIMITED_BPS),
            ]
        if bands:
            # The program drops first, and counts it.
            requests += [
                tc.fifo(index, _FAST_FIFO, _FAST_CLASS, limit + _SPARE_BYTES, new=not there),
                tc.fifo(index, _DATA_FIFO, _DATA_CLASS, limit + _SPARE_BYTES, new=not there),
            ]
    direction.route.transact(requests)


def _remove(direction: Direction, sending: Sending) -> None:
    requests = []
    if sending.root is not None:
        requests.append(tc.without(direction.index, sending.above_queue))
    if sending.program:
        requests.append(tc.without_filter(direction.index))
    direction.route.transact(requests)
    if sending.program and not _has_filters(direction):
        direction.route.transact([tc.without_hook(direction.index)])


def _has_filters(direction: Direction) -> bool:
    """Whether other filters, such as a fast fabric's, hang where ours did."""
    return any(_filters(direction.route, direction.index, egress=egress) for egress in (True, False))


def _filters(route: NetlinkSocket, index: int, *, egress: bool) -> list[bytes]:
    found: list[bytes] = []
    dump = tc.dump_filters(index, egress=egress)
    route.dump("read the filters of a node", dump, lambda _, data: found.append(data))
    return found
