# SPDX-License-Identifier: BSD-2-Clause
"""The fabric that a program is on where it says nothing: a lab's host, or the host's ordinary addresses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric
from mrc.net.hosts import addresses_towards, default_addresses, host_fabric

# What `mrc lab exec` sets on a host.
FABRIC_VARIABLE = "MRC_FABRIC"


def fabric_of_this_host(*, addresses: Sequence[str] = (), towards: Sequence[str] = (), mode: str = "udp") -> Fabric:
    """This host on its ordinary addresses: no fabric file is needed. Each address is a plane, in this order.

    addresses: this host's own, IPv4 or IPv6. Without them those that packets to `towards`, the peer's addresses, leave
    from; without both that of the default route.
    mode: "udp" or "stev".
    Raises CallerError for what is no usable address, SystemRefused for one that is not this host's.
    """
    if mode not in ("udp", "stev"):
        raise CallerError(f"mode must be udp or stev on ordinary addresses, got {mode!r}: others need a fabric file")
    return host_fabric(addresses or (addresses_towards(towards) if towards else default_addresses()), mode)


def fabric_found(
    fabric: Fabric | str | Path | None = None, addresses: Sequence[str] = (), towards: Sequence[str] = ()
) -> Fabric:
    """What `open_device` takes its ports from. Raises as it does."""
    if isinstance(fabric, Fabric):
        return fabric
    path = fabric
    if path is None and not addresses and not towards:
        path = os.environ.get(FABRIC_VARIABLE) or None
    return Fabric.load(str(path)) if path is not None else fabric_of_this_host(addresses=addresses, towards=towards)
