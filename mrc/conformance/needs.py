# SPDX-License-Identifier: BSD-2-Clause
"""What a case needs of a target, looked at before its script begins: whatever is lacking makes the case unsupported."""

from __future__ import annotations

from mrc.conformance.codec.carriage import parsed_address
from mrc.conformance.setup import Setup, TargetQpTerms
from mrc.conformance.target import AdapterFault, Session, TargetQp, Unsupported

_PSNS_OF_A_UNIT = 128


def check_session(setup: Setup, session: Session) -> None:
    """Raises Unsupported where the target, before it has any QP, is not what the case needs."""
    _at_least("plane", setup.planes or 1, len(session.planes))
    _exactly("mode", setup.mode, session.mode)
    _exactly("IP version", setup.ip, min(parsed_address(plane.target)[0] for plane in session.planes))
    own = [len(plane.target_evs) for plane in session.planes]
    _at_least("EV", setup.evs, sum(len(plane.evs) for plane in session.planes), " to the target")
    _at_least("EV", setup.target_evs, sum(own), " of the target's profile")
    _at_least("EV", setup.plane_evs, min(own), " of the target's profile in each plane")
    if session.most_connections is not None:
        _at_least("QP", setup.connections, session.most_connections, " at once")


def check_qp(setup: Setup, qp: TargetQp) -> None:
    """Raises Unsupported where the target's QP has not become what the case needs, AdapterFault where it is none."""
    if not isinstance(qp, TargetQp):
        raise AdapterFault(f"the adapter's connect gave a {type(qp).__name__}, not a mrc.conformance.target.TargetQp")
    if setup.state != "RTS" and qp.state() != setup.state:
        raise Unsupported(f"the target brings its QPs up further than {setup.state} at once")
    terms = qp.terms
    _exactly("path MTU", setup.path_mtu, terms.path_mtu)
    _exactly("the target's first PSN", setup.target_first_psn, terms.first_psn)
    if not setup.agreed <= terms.agreed:
        lacking = ", ".join(sorted(setup.agreed - terms.agreed))
        raise Unsupported(f"{lacking} cannot be agreed with this target")
    if setup.without & terms.agreed:
        always = ", ".join(sorted(setup.without & terms.agreed))
        raise Unsupported(f"with this target {always} is always agreed")
    if terms.tester is not None and setup.first_psn not in (None, terms.tester.first_psn):
        raise Unsupported(f"the tester's first PSN is {terms.tester.first_psn}, the case needs {setup.first_psn}")
    _check_grants(setup, terms)


def _check_grants(setup: Setup, terms: TargetQpTerms) -> None:
    _at_least("PSN", setup.window, terms.mpr * _PSNS_OF_A_UNIT, " of window (MPR x 128) that the target grants")
    _at_least("write", setup.immediates, terms.max_wimm, " with immediate that the target grants")
    _at_least("byte", setup.region, terms.region_length, " of memory open to the tester")


def _exactly(what: str, wanted: object, found: object) -> None:
    if wanted not in (None, found):
        raise Unsupported(f"the case needs {what} {wanted}, with this target it is {found}")


def _at_least(what: str, wanted: int, found: int, more: str = "") -> None:
    if found < wanted:
        raise Unsupported(f"the case needs {wanted} {what}{'s' if wanted != 1 else ''}{more}, this target has {found}")
