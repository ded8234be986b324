# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that go wrong where MPR is dynamic."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.config import MPR_UNIT
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.acknowledgements import Sack
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.responder.received import ReceiveWindow
from mutants.mutant import mutant


@mutant("MRC-MPR-05")
class TheEdgeNeverRetreats(Feedback):
    """A smaller mpr leaves the edge where it was."""

    def _follow_mpr(self, sack: Sack) -> None:
        self._sent.right_edge = max(self._sent.right_edge, sack.cack + 1 + (sack.mpr or self._mpr) * MPR_UNIT)


@mutant("MRC-MPR-06")
class TheLastSackToComeTellsTheEdge(Feedback):
    """A SACK that was overtaken moves the edge like any other."""

    def _follow_mpr(self, sack: Sack) -> None:
        self._sent.right_edge = sack.cack + 1 + (sack.mpr or self._mpr) * MPR_UNIT


@mutant("MRC-MPR-02")
class EdgesAreTakenBack(ReceiveWindow):
    """A smaller grant holds at once, whatever was advertised."""

    def resize(self, units: int) -> None:
        self.units = units

    def end(self, epsn: int) -> int:
        return epsn + self.units * MPR_UNIT

    def tell(self, epsn: int, most: int) -> int:
        return self.units


@mutant("MRC-MPR-03")
class ZeroIsClosed(Feedback):
    """An mpr of 0 is a window of no PSNs."""

    def _follow_mpr(self, sack: Sack) -> None:
        self._sent.right_edge = max(self._sent.right_edge, sack.cack + 1 + sack.mpr * MPR_UNIT)


@mutant("MRC-MPR-04")
class GrantsAreNotFollowed(Feedback):
    """The window is what was agreed on beforehand, whatever SACKs say."""

    def _follow_mpr(self, sack: Sack) -> None:
        sack.mpr = 0
        super()._follow_mpr(sack)


@mutant("MRC-MPR-04")
class NewGrantsAreNotTold(ReceiveWindow):
    """The mpr of SACKs stays what it was when the QP came up."""

    def resize(self, units: int) -> None:
        return


@mutant("MRC-MPR-04")
def mpr_is_followed_without_agreement(endpoint: Endpoint, qp: QueuePair) -> None:
    """The mpr of a SACK moves the edge although dynamic MPR was not agreed."""
    requestor: Any = qp.requestor
    requestor.feedback._dynamic_mpr = True
    requestor._room._most = 64 * MPR_UNIT
