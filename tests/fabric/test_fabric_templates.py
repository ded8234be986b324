# SPDX-License-Identifier: BSD-2-Clause
"""Address templates in a host's fabric file, and the paths a QP gets by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from mrc.endpoint.paths.addressing import PlanePair
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric, FabricPort, HostTemplate
from mrc.wire.address_template import AddressTemplate
from mrc.wire.entropy import EvMode

FABRIC = Fabric(
    "theirs", 0, 4400, tuple(FabricPort(plane, f"p{plane}", f"fd00:{plane}::1", 0, 4) for plane in range(2))
)
# Two spines by bits 2 and 3, the plane in bits 0 and 1.
TEMPLATES = tuple(
    HostTemplate(plane, 7, AddressTemplate(0x5F00 << 112, 3 << 80, 0xC, tuple(spine << 2 | plane for spine in (0, 1))))
    for plane in range(2)
)


def pairs(fabric: Fabric, host: int = 7) -> list[PlanePair]:
    return [
        PlanePair(number, port.plane, port.address, f"fd00:{port.plane}::2", 4, fabric.template(port, 1, host))
        for number, port in enumerate(fabric.ports)
    ]


def test_a_file_there_and_back(tmp_path: Path) -> None:
    fabric = replace(FABRIC, templates=TEMPLATES)
    (tmp_path / "fabric.json").write_text(fabric.to_json())
    assert Fabric.load(tmp_path / "fabric.json") == fabric
    assert "templates" not in json.loads(FABRIC.to_json())


def test_paths_have_the_evs_and_addresses_of_the_templates() -> None:
    planes = pairs(replace(FABRIC, templates=TEMPLATES))
    paths = EvProfile.auto(EvMode.SRV6).paths(planes, Random(0))
    assert [(path.plane, path.ev) for path in paths] == [(0, 0), (0, 4), (1, 1), (1, 5)]
    # struct sockaddr_in6: the address from byte 8 on. Bits 3 and 2 of the EV are bits 81 and 80 of it.
    addresses = [path.destination[8:24].hex() for path in paths]
    assert addresses == ["5f00".ljust(32, "0"), "5f0000000001".ljust(32, "0")] * 2


def test_an_explicit_profile_names_evs_of_the_templates() -> None:
    planes = pairs(replace(FABRIC, templates=TEMPLATES))
    chosen = EvProfile(EvProfileMode.EXPLICIT, EvFormat(EvMode.SRV6, ()), evs=(5, 0))
    assert [path.ev for path in chosen.paths(planes, Random(0))] == [0, 5]


def test_planes_that_share_an_ev_are_refused() -> None:
    shared = tuple(replace(each, template=TEMPLATES[0].template) for each in TEMPLATES)
    with pytest.raises(CallerError, match="two planes have an EV in common"):
        EvProfile.auto(EvMode.SRV6).paths(pairs(replace(FABRIC, templates=shared)), Random(0))


def test_a_host_without_a_template_is_refused() -> None:
    with pytest.raises(CallerError, match="no template to host 8 in plane 0"):
        pairs(replace(FABRIC, templates=TEMPLATES), host=8)


@pytest.mark.parametrize("mode", ["srv6-srh", "stev", "udp"])
def test_templates_are_for_one_mode(mode: str) -> None:
    with pytest.raises(CallerError, match=f"not for {mode}"):
        replace(FABRIC, templates=TEMPLATES, mode=mode)


def test_two_templates_of_one_destination_are_refused() -> None:
    with pytest.raises(CallerError, match="one plane and one host"):
        replace(FABRIC, templates=(TEMPLATES[0], TEMPLATES[0]))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (1, "no object"),
        ({"plane": "0", "host": 7}, "no plane or no host"),
        ({"plane": 0, "host": 7}, "the template of plane 0, host 7 has no template_data"),
    ],
)
def test_a_file_with_another_entry_is_refused(tmp_path: Path, entry: object, words: str) -> None:
    document = json.loads(FABRIC.to_json()) | {"templates": [entry]}
    (tmp_path / "fabric.json").write_text(json.dumps(document))
    with pytest.raises(CallerError, match=words):
        Fabric.load(tmp_path / "fabric.json")


def test_a_template_of_a_plane_without_a_port_is_refused() -> None:
    with pytest.raises(CallerError, match="plane 2, where the host has no port"):
        replace(FABRIC, templates=(replace(TEMPLATES[0], plane=2),))


@pytest.mark.parametrize("templates", [5, {"plane": 0}, "all"])
def test_templates_that_are_no_list_are_refused(tmp_path: Path, templates: object) -> None:
    document = json.loads(FABRIC.to_json()) | {"templates": templates}
    (tmp_path / "fabric.json").write_text(json.dumps(document))
    with pytest.raises(CallerError, match=r"fabric\.json: templates is no list of address templates"):
        Fabric.load(tmp_path / "fabric.json")
