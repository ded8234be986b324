# SPDX-License-Identifier: BSD-2-Clause
"""A transfer over a lab whose hosts know the way by a deployment's address templates, not by this project's plan."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from live_run import Transfers
from programs import MRC
from test_live_modes import arrivals

from mrc.fabric.host_view import Fabric, HostTemplate
from mrc.lab import Lab
from mrc.wire.address_template import AddressTemplate
from mrc.wire.usid import DEFAULT_BLOCK, container, host_usid, leaf_usid, spine_usid

pytestmark = pytest.mark.root

SPINES = 4


def by_templates(lab: Lab, node: str, peer: int, directory: Path) -> Path:
    """The fabric file of a host with templates that lead to the lab's switches: EVs are spine(3) plane(2)."""
    fabric = Fabric.load(lab.fabric_path(node))
    templates = []
    for port in fabric.ports:
        plane = port.plane
        way = leaf_usid(plane, port.leaf), spine_usid(plane, 0), leaf_usid(plane, peer), host_usid(plane, peer)
        evs = tuple(spine << 2 | plane for spine in range(SPINES))
        # The spine's number is in the lowest bits of the second uSID.
        templates.append(HostTemplate(plane, peer, AddressTemplate(container(DEFAULT_BLOCK, way), 7 << 64, 0x1C, evs)))
    document = json.loads(fabric.to_json()) | {"templates": [each.to_document() for each in templates]}
    path = directory / f"{node}.json"
    path.write_text(json.dumps(document))
    return path


def arrived(lab: Lab, host: str) -> dict[int, int]:
    """Packets that a host has got by each plane so far, by the kernel's counters."""
    cables = [link for link in lab.status().links if link.name.startswith(f"{host}-")]
    return {int(link.name[len(host) + 2]): link.toward[host].packets for link in cables}


def test_a_file_arrives_on_every_path_of_the_templates(transfers: Transfers, lab: Lab, tmp_path: Path) -> None:
    receiver = transfers.recv("--fabric", by_templates(lab, "h1", 0, tmp_path))
    ours = by_templates(lab, "h0", 1, tmp_path)
    file = transfers.file("file", 4 << 20)
    at_spines, at_host = arrivals(lab), arrived(lab, "h1")
    ended = transfers.start("h0", [*MRC, "send", file, receiver.ticket, "--fabric", ours, "--json"]).end()
    sent = ended.succeeded().document
    assert sent["sums_agree"] is True
    planes = len(Fabric.load(ours).ports)
    wanted = {spine << 2 | plane for spine in range(SPINES) for plane in range(planes)}
    assert {path["ev"] for path in sent["paths"]} == wanted
    assert all(path["packets"] for path in sent["paths"])
    # Each went over the spine that its EV names, and on to the host, but for what a busy machine dropped: that was sent
    # again.
    resent = sent["retransmitted_packets"]
    now_at_spines, now_at_host = arrivals(lab), arrived(lab, "h1")
    for plane in range(planes):
        packets = {path["ev"] >> 2: path["packets"] for path in sent["paths"] if path["ev"] & 3 == plane}
        for spine, count in packets.items():
            assert now_at_spines[plane, spine] - at_spines[plane, spine] >= max(count - resent, 1)
        assert now_at_host[plane] - at_host[plane] >= max(sum(packets.values()) - resent, 1)
    assert (transfers.directory / "file").read_bytes() == file.read_bytes()
    assert os.path.getsize(file) == sent["bytes"]
