# SPDX-License-Identifier: BSD-2-Clause
"""The lab as an object: build or open it, break it, mend it, look at it, take it down. Its links: mrc.lab.links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Description, Link, Shape
from mrc.lab import state
from mrc.lab.links import LabLinks
from mrc.opened import not_in_a_child
from mrc.trace.vocabulary import CLEAR, CUT, FABRIC_UP, HEAL, IMPAIR, EventType

if TYPE_CHECKING:
    from mrc.fabric import Impairment
    from mrc.lab.build import Removal
    from mrc.lab.differences import Difference
    from mrc.lab.events import EventLog
    from mrc.lab.flap import Flapped, FlapResult
    from mrc.lab.status import LabStatus


def lab_names() -> tuple[str, ...]:
    """The names of all labs on this system, half-built ones too. Raises SystemRefused."""
    return state.names()


class Lab(LabLinks):
    """A fabric of network namespaces that is up. Make one with `Lab.up` or `Lab.open`, not directly.

    As a context manager a lab from `up` is taken down at the end of the block, one from `open` only let go of.
    It is safe to use from several threads. `created` says that `up` built it and did not find it there,
    `replaced_crashed` that it cleared a half-built lab first.
    """

    def __init__(
        self, found: state.LabState, *, created: bool = True, replaced_crashed: bool = False, ours: bool = False
    ) -> None:
        super().__init__(found)
        self._ours = ours
        self.created = created
        self.replaced_crashed = replaced_crashed
        not_in_a_child(self)

    def _abandon(self) -> None:
        # A child that leaves the `with` block takes nothing down.
        self._ours = False

    @classmethod
    def up(
        cls,
        name: str = "mrc",
        topology: Shape | Description | None = None,
        *,
        exist_ok: bool = False,
        fast: bool = False,
    ) -> Lab:
        """Build a lab (default: 2 planes of 2 leaves and 4 spines, 2 hosts) and open it.

        `fast`: eBPF programs at the switches' ports carry uSID packets, not the kernel's seg6local (docs/lab.md).

        With `exist_ok` a lab of that name that was built from the same description is opened as it is: `created` is
        then False, a `with` block does not take it down, and `differences` says whether it still is as described.
        Raises CallerError when the name is in use, SystemRefused when the system does not allow it; then
        nothing stays behind. A half-built lab of that name whose builder crashed is cleared first.
        """
        from mrc.lab import build

        wanted = topology if isinstance(topology, Description) else Description(topology) if topology else Description()
        if fast:
            from mrc.lab import fast as fast_fabric

            fast_fabric.check(wanted.shape)
        outcome = build.build(name, wanted, fast=fast, exist_ok=exist_ok, before_up=_finish)
        if outcome is build.Outcome.FOUND:
            return cls(_load_up(name), created=False)
        built = cls(_load_up(name), replaced_crashed=outcome is build.Outcome.REPLACED, ours=True)
        try:
            built.record(FABRIC_UP, name, (), time.monotonic_ns(), **built._shape())
        except BaseException:
            built.down()
            raise
        return built

    @classmethod
    def open(cls, name: str = "mrc") -> Lab:
        """A lab that is up already. Raises CallerError when there is none of that name, or only a half-built one."""
        return cls(_load_up(name), created=False)

    @classmethod
    def remove(cls, name: str = "mrc", wait_s: float = 0.0) -> Removal:
        """Take down a lab by name, whole or half-built. Raises CallerError when there is none.

        The kernel takes the cables away a moment later (tenths of a second): `wait_s` is how long to wait for that.
        """
        from mrc.lab import build

        return build.remove(name, wait_s)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours:
            self.down()
        else:
            self.close()

    def down(self, wait_s: float = 0.0) -> Removal:
        """Take the lab down. Programs still running in it keep their namespace until they end: see `processes`.

        `wait_s` as in `remove`.
        """
        self.close()
        return self.remove(self.name, wait_s)

    def prepare(self, *targets: str) -> tuple[Link, ...]:
        """Load and open all that cutting and healing these takes, so that it takes no longer than the kernel does.

        Returns the links they name, each once. Raises CallerError, SystemRefused.
        """
        from mrc.lab import cables  # noqa: F401

        links = self._links_of_all(targets)
        for node in dict.fromkeys(end for link in links for end in (link.lower, link.upper)):
            self._route(node)
        if self.fast:
            from mrc.lab import fast  # noqa: F401
        return links

    def cut(self, *targets: str) -> int:
        """Break every cable these name. Returns CLOCK_MONOTONIC nanoseconds taken just before the first broke.

        The upper end (the leaf's towards a host, the spine's towards a leaf) is set down; the lower end loses
        carrier with its configuration intact, as with a real broken cable. Raises CallerError, SystemRefused.
        """
        from mrc.lab import cables

        links = self._links_of_all(targets)
        with self._forgetting(links):
            cut_at_ns, took_ns = cables.cut(links, self._plans, self._route)
        self.record(CUT, " ".join(targets), links, cut_at_ns, took_ns=took_ns)
        return cut_at_ns

    def heal(self, *targets: str) -> int:
        """Mend every cable these name, whichever end was down and however it came to be.

        Both ends get back what a link-down flushes. A cable of which somebody deleted an end is laid again, with the
        impairments of the lab's description. Returns CLOCK_MONOTONIC nanoseconds taken when all was in place
        and every end operational. Raises CallerError, SystemRefused.
        """
        from mrc.lab import cables

        links = self._links_of_all(targets)
        try:
            healed_at_ns, took_ns = cables.heal(links, self._plans, self._route)
        except SystemRefused:
            # Looked at only now: where all cables lie, a heal takes no longer than the kernel does.
            again = cables.taken_away(links, self._plans, self._route)
            if not again:
                raise
            cables.lay_again(again, self._plans, self._route, self.open_namespace, self.topology.mtu)
            self._furnish(again)
            healed_at_ns, took_ns = cables.heal(links, self._plans, self._route)
        self.record(HEAL, " ".join(targets), links, healed_at_ns, took_ns=took_ns)
        return healed_at_ns

    def impair(
        self,
        link: str,
        loss: float | None = None,
        toward: str | None = None,
        *,
        rate_bps: int | None = None,
        queue_bytes: int | None = None,
        ecn_at_bytes: int | None = None,
        trim_at_bytes: int | None = None,
        trim_to_bytes: int | None = None,
        trim_dscp: int | None = None,
        trim_dscp_lasthop: int | None = None,
        duplicate: float | None = None,
        corrupt: float | None = None,
        mtu_bytes: int | None = None,
        delay_ns: int | None = None,
        jitter_ns: int | None = None,
        reorder: float | None = None,
    ) -> None:
        """Change what is wrong with `link`, each way or only `toward` one end, while traffic runs.

        What is given changes, what is not stays; 0 is off (`mrc.fabric.Impairment` has units and ranges). Taking the
        rate away takes the queue with it. Raises CallerError, SystemRefused: marks, trims, duplicates and corruption
        need eBPF, delays a kernel with netem or /dev/net/tun.
        """
        from mrc.lab import impairment

        changes = {
            "loss": loss,
            "rate_bps": rate_bps,
            "queue_bytes": queue_bytes,
            "ecn_at_bytes": ecn_at_bytes,
            "trim_at_bytes": trim_at_bytes,
            "trim_to_bytes": trim_to_bytes,
            "trim_dscp": trim_dscp,
            "trim_dscp_lasthop": trim_dscp_lasthop,
            "duplicate": duplicate,
            "corrupt": corrupt,
            "mtu_bytes": mtu_bytes,
            "delay_ns": delay_ns,
            "jitter_ns": jitter_ns,
            "reorder": reorder,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        if not given:
            raise CallerError(f"nothing to change on {link}: give {', '.join(changes)}")
        at_ns = time.monotonic_ns()
        directions = self._directions(link, toward)
        with impairment.turn(state.directory(self.name)), self._changing([self.topology.link(link)]):
            impairment.change(list(directions.values()), **given)
        self.record(IMPAIR, link, [self.topology.link(link)], at_ns, toward=list(directions), **given)

    def clear(self, link: str, toward: str | None = None) -> None:
        """Nothing is wrong with `link` any more, each way or `toward` one end. Raises CallerError, SystemRefused."""
        from mrc.lab import impairment

        at_ns = time.monotonic_ns()
        directions = self._directions(link, toward)
        with impairment.turn(state.directory(self.name)), self._changing([self.topology.link(link)]):
            for each in directions.values():
                impairment.clear(each)
        self.record(CLEAR, link, [self.topology.link(link)], at_ns, toward=list(directions))

    def impairment(self, link: str, toward: str) -> Impairment:
        """What is wrong with `link` toward that end. Raises CallerError, SystemRefused."""
        from mrc.lab import impairment

        return impairment.read(self._directions(link, toward)[toward])

    def status(self) -> LabStatus:
        """Ask the kernel how the lab is. Raises SystemRefused."""
        from mrc.lab import status

        return status.read(self.name, self.topology, self._route, self._filters, fast=self.fast)

    def differences(self) -> tuple[Difference, ...]:
        """Where the lab is no longer as it was built: what `mrc.lab.differences` compares. Raises SystemRefused."""
        from mrc.lab import differences

        found = list(differences.of_nodes(self.topology, self._plans, self._state.tag, self.open_namespace))
        lost = {each.where for each in found if each.remedy is differences.Remedy.REBUILD}
        there = {node: planned for node, planned in self._plans.items() if node not in lost}
        if self.fast:
            found += differences.of_programs(there, self._route)
        found += differences.of_impairments(self.description, there, self._route, self._filters)
        return tuple(found)

    @property
    def events(self) -> EventLog:
        """What was done to this lab and when."""
        from mrc.lab.events import EventLog

        return EventLog(self.name)

    def record(self, kind: EventType, target: str, links: Iterable[Link], at_ns: int, **details: Any) -> None:
        """Write down what was done at `at_ns` (CLOCK_MONOTONIC) in the lab's event log.

        Raises SystemRefused, also when this lab is gone: sockets into its namespaces outlive it.
        """
        from mrc.fabric.events import FabricEvent

        names = [link.name for link in links]
        self.events.append(FabricEvent.of(kind, target, names, at_ns, details), self._state.tag)

    def flap(
        self,
        *targets: str,
        period_s: float = 2.0,
        count: int = 5,
        duty: float = 0.5,
        wait: Callable[[float], object] | None = None,
        on_change: Callable[[Flapped], object] | None = None,
    ) -> FlapResult:
        """Cut and heal these `count` times, once a period, and leave them healed. `mrc.lab.flap` has the details."""
        from mrc.lab.flap import Flapping

        return Flapping(period_s, count, duty).run(self, targets, wait, on_change)

    def _shape(self) -> dict[str, object]:
        shape = self.topology
        return {**shape.sizes, "mtu_bytes": shape.mtu, "mode": shape.mode, "fast": self.fast}


def _load_up(name: str) -> state.LabState:
    found = state.load(name)
    if found is None or found.phase != state.UP:
        raise CallerError(
            f"lab {name!r} is half-built (its builder is at work, or crashed): `mrc lab down --name {name}` clears it"
        )
    return found


def _finish(found: state.LabState) -> None:
    """What a new lab has beside nodes and cables: the programs of a fast one, the impairments of its description."""
    lab = Lab(found)
    try:
        if found.fast:
            from mrc.lab import fast

            fast.install(lab._plans, lab._route)  # noqa: SLF001
        lab._impair_as_described(found.topology.links)  # noqa: SLF001
    finally:
        lab.close()
