# SPDX-License-Identifier: BSD-2-Clause
"""The links of a lab: by name, each of their directions, and what has to be done where one is changed or laid again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from mrc.errors import CallerError
from mrc.fabric import Description, Link
from mrc.lab import state
from mrc.lab.nodes import LabNodes

if TYPE_CHECKING:
    from mrc.fabric import Impairment
    from mrc.lab.impairment import Direction


class LabLinks(LabNodes):
    """Links between nodes, as the lab's description has them. `mrc.lab.Lab` cuts, heals and impairs them."""

    @property
    def description(self) -> Description:
        """What the lab was built from; `differences` says what is otherwise by now."""
        return self._state.description

    @property
    def fast(self) -> bool:
        """Whether eBPF programs at the switches' ports carry uSID packets."""
        return self._state.fast

    def links_of(self, target: str) -> tuple[Link, ...]:
        """The links `target` names: a link, a switch or host (all its links), `plane:N`. Raises CallerError."""
        return self.topology.links_of_target(target)

    def _links_of_all(self, targets: Sequence[str]) -> tuple[Link, ...]:
        """Each link once, in the order of `targets`. Raises CallerError."""
        if not targets:
            raise CallerError("name at least one link, node or plane")
        return tuple(dict.fromkeys(link for target in targets for link in self.links_of(target)))

    def _directions(self, link: str, toward: str | None) -> dict[str, Direction]:
        """By the end they go toward, the directions of `link` that `toward` names: both, or one."""
        from mrc.lab.impairment import Direction

        found = self.topology.link(link)
        if toward not in (None, found.lower, found.upper):
            raise CallerError(f"{toward!r} is no end of {found.name}: its ends are {found.lower} and {found.upper}")
        directions = {}
        for sender, receiver in ((found.upper, found.lower), (found.lower, found.upper)):
            if toward in (None, receiver):
                directions[receiver] = Direction(
                    route=self._route(sender),
                    index=self._plans[sender].interface(found).index,
                    sending=self._plans[sender].interface(found).name,
                    filters=partial(self._filters, receiver),
                    receiving=self._plans[receiver].interface(found).name,
                    last_hop=not self._plans[receiver].is_switch,
                    mtu=self.topology.mtu,
                    inside=partial(self.inside, sender),
                    lab_file=state.directory(self.name) / "lab.json",
                )
        return directions

    def _furnish(self, links: Sequence[Link]) -> None:
        """Give cables that were laid again what the lab had there when it was built."""
        from mrc.lab import impairment

        if self.fast:
            from mrc.lab import fast

            fast.install_again(links, self.topology.links, self._plans, self._route)
        with impairment.turn(state.directory(self.name)):
            for link in links:
                with self._changing([link]):
                    # What drops packets hangs on the name of an interface: it may have outlived the cable.
                    for each in self._directions(link.name, None).values():
                        impairment.clear(each)
            self._impair_as_described(links)

    def _impair_as_described(self, links: Sequence[Link]) -> None:
        """Give these links, with which nothing is wrong, the impairments of the lab's description."""
        from mrc.lab import impairment

        names = {link.name for link in links}
        wanted_of = {key: wanted for key, wanted in self.description.impairments.items() if key[0] in names}
        alike: dict[Impairment, list[Direction]] = {}
        for (link, toward), wanted in wanted_of.items():
            alike.setdefault(wanted, []).extend(self._directions(link, toward).values())
        changed = dict.fromkeys(self.topology.link(link) for link, _ in wanted_of)
        with self._changing(list(changed)):
            for wanted, directions in alike.items():
                impairment.change(directions, **asdict(wanted))

    def _changing(self, links: Sequence[Link]) -> AbstractContextManager[None]:
        """Return the context to change the impairments of these links in: it updates a fast fabric's programs."""
        if not self.fast:
            return nullcontext()
        from mrc.lab import fast

        return fast.changing(links, self._plans, self._route, self._filters)

    def _forgetting(self, links: Sequence[Link]) -> AbstractContextManager[None]:
        """Return the context to cut these links in: a fast fabric's programs then ask the kernel's routes anew."""
        if not self.fast:
            return nullcontext()
        from mrc.lab import fast

        return fast.forgetting(links, self._plans, self._route)
