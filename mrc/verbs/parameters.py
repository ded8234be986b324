# SPDX-License-Identifier: BSD-2-Clause
"""What the attributes of a QP are to the endpoint: the parameters of its QP, its congestion controller, its peer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mrc.endpoint.config import (
    EXPONENTIAL_RETRIES_FOREVER,
    MAX_TIMEOUT_RETRIES,
    Capability,
    QpConfig,
)
from mrc.endpoint.congestion import ControllerFactory, factory_of
from mrc.endpoint.qp_peer import QpPeer
from mrc.verbs.attributes import AHAttr
from mrc.verbs.owner import Owner
from mrc.verbs.transitions import USUAL_CAPABILITIES

# `timeout` of a QP that no timeout ends.
NO_TIMEOUT = 0

# Attributes that are parameters of the endpoint's QP under the same name.
_PARAMETERS = (
    "path_mtu",
    "max_wimm_dest",
    "mpr_dest",
    "max_wimm",
    "mpr",
    "linear_retries",
    "exponential_retries",
    "timeout",
)

_RETRIES = ("linear_retries", "exponential_retries")


def configured(context: Owner, attributes: dict[str, Any]) -> tuple[QpConfig, ControllerFactory | None]:
    """The endpoint's parameters and controller factory for these attributes."""
    tuning = context.tuning
    changes = {name: attributes[name] for name in _PARAMETERS if name in attributes}
    changes["paths"] = context.evs_of(attributes.get("ev_profile_id", 0)).path_config(tuning.paths)
    if attributes.get("timeout") == NO_TIMEOUT:
        # The requestor still asks for what is missing, as often as usual, and never gives up.
        changes |= {"timeout": tuning.timeout, "exponential_retries": EXPONENTIAL_RETRIES_FOREVER}
    if any(changes.get(name) not in (None, getattr(tuning, name)) for name in _RETRIES):
        # The tuning limits timeouts in a row for its own retries, not for those that the program asks for.
        changes["timeout_retries"] = None
    if changes.get("exponential_retries") == EXPONENTIAL_RETRIES_FOREVER:
        # The attribute says for ever, so a limit on timeouts in a row in the tuning does not apply. With this value
        # timeouts alone double the next timeout: trimmed packets do not.
        changes["timeout_retries"] = MAX_TIMEOUT_RETRIES
    address: AHAttr | None = attributes.get("ah_attr")
    if address is not None and address.traffic_class is not None:
        changes["traffic_class"] = address.traffic_class
    if "dynamic_mpr" in attributes:
        changes["capabilities"] = _with_dynamic_mpr(tuning.capabilities, attributes["dynamic_mpr"])
    controller = context.controller_of(attributes.get("cc_profile_id", 0))
    return replace(tuning, **changes), None if controller is None else factory_of(controller)


def peer_of(context: Owner, attributes: dict[str, Any]) -> QpPeer:
    """The QP at the other end. Raises PeerError where it cannot be reached."""
    peer = context.device.peer(
        attributes["ah_attr"].node,
        attributes["dest_qp_num"],
        attributes["rq_psn"],
        attributes["path_mtu"],
        context.evs_of(attributes["ev_profile_id"]),
    )
    # Dynamic MPR counts as agreed by the attribute alone.
    capabilities = attributes.get("dest_caps", USUAL_CAPABILITIES)
    return replace(peer, capabilities=_with_dynamic_mpr(capabilities, attributes.get("dynamic_mpr", False)))


def _with_dynamic_mpr(capabilities: Capability, wanted: bool) -> Capability:
    others = capabilities & ~Capability.DYNAMIC_MPR
    return others | Capability.DYNAMIC_MPR if wanted else others
