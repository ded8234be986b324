# SPDX-License-Identifier: BSD-2-Clause
"""What users of mininet and containerlab expect: names, MRC_LAB, status of a part, drawings, a containerlab file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import programs
import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft7Validator
from patience import PATIENCE_S
from programs import MRC

from mrc.cli.lab import lab as lab_command
from mrc.errors import CallerError
from mrc.fabric import Clos, Impairment
from mrc.fabric.shapes import shape_of
from mrc.lab import Lab, containerlab
from mrc.lab.graph import LinkLook, dot, svg

SVG = "{http://www.w3.org/2000/svg}"


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return programs.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, **environment})


def invoke(lab: Lab, *argv: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "MRC_LAB": lab.name}).invoke(lab_command, argv)


# ------------------------------------------------------------------ names


@pytest.mark.root
@pytest.mark.parametrize("name", ["h1", "h1-p0", "h1-p1", "p0s1"])
def test_hosts_have_names_inside(lab: Lab, need_program: Callable[[str], str], name: str) -> None:
    ended = run(
        *MRC, "lab", "exec", "h0", "--", need_program("ping"), "-6", "-c", "1", "-w", "5", name, MRC_LAB=lab.name
    )
    assert ended.returncode == 0, ended
    plane = int(name[-1]) if name[-2:-1] == "p" else 0
    address = lab.addresses("h1")[plane] if name.startswith("h1") else "fd4d:5243:0:2::2"
    assert f"({address})" in ended.stdout


@pytest.mark.root
def test_names_of_the_system_stay_and_nothing_of_ours_is_outside(lab: Lab) -> None:
    def mounts() -> list[str]:
        """Of this lab, and over files of the system. Other labs come and go meanwhile."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line for line in lines if lab.name in line or "/etc/" in line]

    own, before = Path("/etc/hosts").read_text(), mounts()
    inside = run(*MRC, "lab", "exec", "h0", "--", "cat", "/etc/hosts", MRC_LAB=lab.name)
    assert inside.stdout.startswith(own.rstrip("\n"))
    assert Path("/etc/hosts").read_text() == own
    assert mounts() == before


@pytest.mark.root
def test_a_lab_can_be_built_and_removed_from_inside_another(lab: Lab, lab_name: Callable[[str], str]) -> None:
    """Programs on a node have mounts of their own: names of namespaces are shared all the same."""
    inner = lab_name("inner")
    up = [*MRC, "lab", "exec", "h0", "--", *MRC, "lab", "up", "--name", inner, "--planes", "1", "--spines", "1"]
    assert run(*up, MRC_LAB=lab.name).returncode == 0
    try:
        assert Path(f"/run/netns/{inner}-h0").exists()
        assert run(*MRC, "lab", "exec", "h0", "--", "true", MRC_LAB=inner).returncode == 0
    finally:
        down = run(*MRC, "lab", "exec", "h0", "--", *MRC, "lab", "down", "--name", inner, MRC_LAB=lab.name)
    assert down.returncode == 0, down
    assert not Path(f"/run/netns/{inner}-h0").exists()


# ------------------------------------------------------------------ which lab


@pytest.mark.root
def test_mrc_lab_names_the_lab(lab: Lab) -> None:
    found = json.loads(run(*MRC, "lab", "status", "--json", MRC_LAB=lab.name).stdout)
    assert found["name"] == lab.name
    # A program on a node is told which lab it is in; --name is stronger than the environment.
    inside = run(*MRC, "lab", "exec", "h0", "--", "sh", "-c", "echo $MRC_LAB", MRC_LAB=lab.name)
    assert inside.stdout == f"{lab.name}\n"
    other = run(*MRC, "lab", "status", "--name", "no-such-lab", MRC_LAB=lab.name)
    assert "no lab 'no-such-lab'" in other.stderr


def test_a_file_and_the_environment_that_disagree(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("name: one\nplanes: 1\n")
    ended = run(*MRC, "lab", "graph", str(tmp_path / "two.yaml"), MRC_LAB="two")
    assert ended.returncode == 2
    assert "MRC_LAB=two contradicts 'name: one'" in ended.stderr


# ------------------------------------------------------------------ status of a part


@pytest.mark.root
@pytest.mark.parametrize(
    ("targets", "hosts", "switches", "links"),
    [
        (["h0"], ["h0"], [], ["h0-p0l0", "h0-p1l0"]),
        (["p0s1"], [], ["p0s1"], ["p0l0-p0s1", "p0l1-p0s1"]),
        (["p0l0-p0s1"], [], [], ["p0l0-p0s1"]),
        (["h1", "p0l0-p0s1"], ["h1"], [], ["h1-p0l1", "h1-p1l1", "p0l0-p0s1"]),
        (["hosts"], ["h0", "h1"], [], ["h0-p0l0", "h1-p0l1", "h0-p1l0", "h1-p1l1"]),
        (["leaves"], [], ["p0l0", "p0l1", "p1l0", "p1l1"], None),
        (["spines"], [], [f"p{plane}s{spine}" for plane in (0, 1) for spine in range(4)], 16),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_status_of_a_part(lab: Lab, targets: list[str], hosts: list[str], switches: list[str], links: Any) -> None:
    found = json.loads(invoke(lab, "status", "--json", *targets).stdout)
    assert [host["name"] for host in found["hosts"]] == hosts
    assert found["switches"] == switches
    names = [link["name"] for link in found["links"]]
    if isinstance(links, list):
        assert sorted(names) == sorted(links)
    else:
        assert len(names) == (links or 20)
    table = invoke(lab, "status", *targets).stdout
    assert names[0] in table
    assert ("fd4d:5243" in table) == bool(hosts)


@pytest.mark.root
def test_status_of_what_is_not_there(lab: Lab) -> None:
    assert "no node 'h7'" in invoke(lab, "status", "h7").stderr
    assert "no link 'p0l0-p9s9'" in invoke(lab, "status", "p0l0-p9s9").stderr


# ------------------------------------------------------------------ drawings

SHAPES = [Clos(), Clos(planes=1, leaves=3, spines=2, hosts_per_leaf=2), shape_of({"shape": "ring", "leaves": 4})]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.kind} {shape.host_count}")
def test_a_drawing_has_every_node_and_link_inside_its_frame(shape: Any) -> None:
    looks = {shape.links[0].name: LinkLook("down", "cut"), shape.links[-1].name: LinkLook("impaired", 'loses 1% <"&')}
    root = ElementTree.fromstring(svg(shape, "a & b", looks))
    width, height = (float(each) for each in root.attrib["viewBox"].split()[2:])
    nodes = {group.attrib["data-node"]: group for group in root.iter(f"{SVG}g")}
    assert set(nodes) == set(shape.nodes)
    boxes = []
    for group in nodes.values():
        box = group.find(f"{SVG}rect")
        assert box is not None
        x, y, wide, high = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + wide <= width
        assert y + high <= height
        boxes.append((x, y, wide, high))
    for at, (x, y, wide, high) in enumerate(boxes):
        assert not any(abs(x - u) < wide and abs(y - v) < high for u, v, _, _ in boxes[:at]), "boxes overlap"
    states = {
        path.attrib["data-link"]: path.attrib["data-state"]
        for path in root.iter(f"{SVG}path")
        if "data-link" in path.attrib
    }
    assert set(states) == {link.name for link in shape.links}
    assert (states[shape.links[0].name], states[shape.links[-1].name]) == ("down", "impaired")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.kind} {shape.host_count}")
def test_dot_is_read_by_graphviz(shape: Any, need_program: Callable[[str], str]) -> None:
    text = dot(shape, 'a "b"', {shape.links[0].name: LinkLook("down", "cut")})
    drawn = subprocess.run(
        [need_program("dot"), "-Tplain"], input=text, capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split() for line in drawn.splitlines()]
    assert {words[1] for words in lines if words[0] == "node"} == set(shape.nodes)
    assert sorted((words[1], words[2]) for words in lines if words[0] == "edge") == sorted(
        link.ends for link in shape.links
    )


@pytest.mark.parametrize(
    ("name", "begins"),
    [("a.svg", "<svg"), ("a.SVG", "<svg"), ("a.dot", "graph"), ("a.gv", "graph"), ("a.png", None), ("a", None)],
)
def test_the_name_of_the_file_says_what_is_drawn(tmp_path: Path, name: str, begins: str | None) -> None:
    done = CliRunner().invoke(lab_command, ["graph", "--spines", "1", "--out", str(tmp_path / name)])
    assert done.exit_code == (2 if begins is None else 0)
    assert (tmp_path / name).exists() == (begins is not None)
    if begins is not None:
        assert (tmp_path / name).read_text().startswith(begins)
    else:
        assert f"{name}: name it .svg or .dot" in done.stderr


@pytest.mark.root
def test_a_lab_that_is_up_is_drawn_with_what_is_wrong_with_it(lab: Lab, tmp_path: Path) -> None:
    lab.cut("p0l0-p0s1")
    lab.impair("p1l0-p1s0", loss=0.01, toward="p1s0")
    try:
        done = invoke(lab, "graph", "--out", str(tmp_path / "lab.svg"))
    finally:
        lab.heal("p0l0-p0s1")
        lab.clear("p1l0-p1s0")
    assert done.exit_code == 0, done.output
    root = ElementTree.parse(tmp_path / "lab.svg").getroot()
    wrong = {
        path.attrib["data-link"]: (path.attrib["data-state"], path[0].text)
        for path in root.iter(f"{SVG}path")
        if path.attrib.get("data-state", "up") != "up"
    }
    assert wrong == {
        "p0l0-p0s1": ("down", "p0l0-p0s1: cut"),
        "p1l0-p1s0": ("impaired", "p1l0-p1s0: toward p1s0 loses 1%"),
    }


# ------------------------------------------------------------------ containerlab


class Containers:
    """Namespaces that do what containerlab does with a file: sysctls, links with their MTU, then the commands."""

    def __init__(self, topology: dict[str, Any], prefix: str) -> None:
        self._prefix = prefix
        self.nodes = topology["nodes"]
        for node, described in self.nodes.items():
            self._ip("netns", "add", f"{prefix}{node}")
            for key, value in described["sysctls"].items():
                self.inside(node, "sh", "-c", f"echo {value} > /proc/sys/{key.replace('.', '/')}")
            self.inside(node, "ip", "link", "set", "lo", "up")
        for link in topology["links"]:
            (node, end), (other, far) = (each.split(":") for each in link["endpoints"])
            self._ip(
                *("link", "add", end, "netns", f"{prefix}{node}", "mtu", str(link["mtu"]), "type", "veth"),
                *("peer", "name", far, "netns", f"{prefix}{other}", "mtu", str(link["mtu"])),
            )
        for node, described in self.nodes.items():
            script = "set -e\n" + "\n".join(described["exec"])
            self.inside(node, "sh", "-c", script)

    def inside(self, node: str, *argv: str) -> str:
        return self._ip("netns", "exec", f"{self._prefix}{node}", *argv)

    def close(self) -> None:
        for node in self.nodes:
            subprocess.run(["ip", "netns", "del", f"{self._prefix}{node}"], check=False, capture_output=True)

    @staticmethod
    def _ip(*argv: str) -> str:
        done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout


@pytest.fixture
def deploy(need_root: None) -> Iterator[Callable[[Path], Containers]]:
    made: list[Containers] = []

    def act(path: Path) -> Containers:
        topology = yaml.safe_load(path.read_text())["topology"]
        containers = Containers.__new__(Containers)
        containers._prefix, containers.nodes = f"t{os.getpid()}-", topology["nodes"]
        made.append(containers)
        containers.__init__(topology, f"t{os.getpid()}-")  # type: ignore[misc]
        return containers

    yield act
    for each in made:
        each.close()


@pytest.mark.root
@pytest.mark.parametrize("mode", ["srv6", "ecmp"])
def test_a_containerlab_file_forwards_as_the_lab_does(
    tmp_path: Path, deploy: Callable[[Path], Containers], mode: str
) -> None:
    """Plain IPv6, and packets by uSIDs over a spine of the sender's choice: the kernel counts where they went."""
    links = {"p0l1-p0s1": {"toward": {"p0s1": {"mtu": 1500}}}}
    fabric = {"name": "exported", "planes": 1, "spines": 2, "mode": mode, "links": links}
    (tmp_path / "fabric.yaml").write_text(yaml.safe_dump(fabric))
    done = run(*MRC, "lab", "export", str(tmp_path / "fabric.yaml"), "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    containers = deploy(tmp_path / "exported.clab.yml")
    assert " 0% packet loss" in containers.inside("h0", "ping", "-6", "-c", "2", "-i", "0.1", "fd4d:5243::2")
    assert json.loads((tmp_path / "h0.json").read_text())["host"] == 0
    assert f"mtu {Clos().mtu}" in containers.inside("p0l0", "ip", "link", "show", "p0s1")
    assert "mtu 1500" in containers.inside("p0l1", "ip", "link", "show", "p0s1")
    assert f"mtu {Clos().mtu}" in containers.inside("p0s1", "ip", "link", "show", "p0l1")
    if mode != "srv6":
        return

    def passed(spine: str) -> int:
        shown = json.loads(containers.inside(spine, "ip", "-s", "-j", "link", "show", "p0l0"))
        return int(shown[0]["stats64"]["rx"]["packets"])

    before = passed("p0s0"), passed("p0s1")
    # An ICMPv6 echo inside an IPv6 packet whose destination lists leaf 0, spine 1, leaf 1 and host 1 by their uSIDs.
    sender = (
        "from scapy.all import *; from mrc.fabric import Clos; from mrc.wire.usid import address_text; "
        "way = address_text(Clos(planes=1, spines=2).template_between(0, 1).address(0, 1)); "
        "send(IPv6(src='fd4d:5243::1', dst=way)"
        "/IPv6(src='fd4d:5243::1', dst='fd4d:5243::2')/ICMPv6EchoRequest(), count=20, verbose=0)"
    )
    containers.inside("h0", sys.executable, "-c", sender)
    after = passed("p0s0"), passed("p0s1")
    assert after[1] - before[1] >= 20
    assert after[0] - before[0] < 20


def test_stev_has_no_containerlab_file() -> None:
    with pytest.raises(CallerError, match="mode stev marks packets through nftables"):
        containerlab.files(Clos(mode="stev"), "lab")


# What schemas/clab.schema.json of containerlab says of the parts that a file has: no other keys are allowed there.
CLAB_SCHEMA = {
    "type": "object",
    "required": ["name", "topology"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "topology": {
            "type": "object",
            "required": ["nodes"],
            "additionalProperties": False,
            "properties": {
                "defaults": {"$ref": "#/definitions/node"},
                "nodes": {"type": "object", "additionalProperties": {"$ref": "#/definitions/node"}},
                "links": {"type": "array", "items": {"$ref": "#/definitions/link"}, "uniqueItems": True},
            },
        },
    },
    "definitions": {
        "node": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "kind": {"const": "linux"},
                "image": {"type": "string"},
                "sysctls": {
                    "type": "object",
                    "patternProperties": {"^net\\..+": {"type": ["string", "number"]}},
                    "additionalProperties": False,
                },
                "exec": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
                "binds": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
            },
        },
        "link": {
            "type": "object",
            "required": ["endpoints"],
            "additionalProperties": False,
            "properties": {
                "endpoints": {
                    "type": "array",
                    "items": {"type": "string", "pattern": r"^\S+:\S+$"},
                    "minItems": 2,
                    "maxItems": 2,
                    "uniqueItems": True,
                },
                "mtu": {"type": "integer", "minimum": 1, "maximum": 65535},
            },
        },
    },
}


@pytest.mark.parametrize("mode", ["srv6", "srv6-srh", "ecmp"])
def test_a_file_is_of_containerlabs_schema(mode: str) -> None:
    topology = yaml.safe_load(containerlab.files(Clos(mode=mode), "lab")["lab.clab.yml"])
    Draft7Validator(CLAB_SCHEMA).validate(topology)


def test_every_command_of_the_plan_is_in_the_file() -> None:
    written = containerlab.files(Clos(planes=2, leaves=2, spines=2), "lab", "some/image")
    assert set(written) == {"lab.clab.yml", "h0.json", "h1.json"}
    topology = yaml.safe_load(written["lab.clab.yml"])["topology"]
    assert topology["defaults"] == {"kind": "linux", "image": "some/image"}
    assert len(topology["links"]) == len(Clos(planes=2, leaves=2, spines=2).links)
    assert sum("seg6local" in line for line in topology["nodes"]["p0s0"]["exec"]) == 1
    assert topology["nodes"]["h0"]["binds"] == ["h0.json:/etc/mrc-fabric.json:ro"]


# ------------------------------------------------------------------ the MTU of a link


def arrives(lab: Lab, size: int) -> bool:
    """An echo of so many payload bytes from h0 to h1 in plane 0, uncut. Hosts remember no MTU of the path."""
    for host in ("h0", "h1"):
        lab.popen(host, ["ip", "-6", "route", "flush", "cache"], stderr=subprocess.DEVNULL).wait(PATIENCE_S)
    ping = ["ping", "-6", "-M", "do", "-c", "1", "-W", "1", "-s", str(size), lab.addresses("h1")[0]]
    return lab.popen("h0", ping, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait(PATIENCE_S) == 0


@pytest.mark.root
@pytest.mark.parametrize("fast", [False, True], ids=["kernel", "fast"])
def test_a_link_with_a_smaller_mtu(lab_name: Callable[[str], str], fast: bool, tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text("planes: 1\nspines: 1\nlinks:\n  p0l0-p0s0:\n    mtu: 1500\n")
    name = lab_name("mtu")
    up = [*MRC, "lab", "up", str(file), "--name", name, *(["--fast"] if fast else [])]
    done = run(*up)
    assert done.returncode == 0, done.stderr
    try:
        with Lab.open(name) as lab:
            assert arrives(lab, 1452)  # 1500 with IPv6's and ICMPv6's headers
            assert not arrives(lab, 1453)
            links = {link.name: link for link in lab.status().links}
            assert {node: way.mtu_bytes for node, way in links["p0l0-p0s0"].toward.items()} == {
                "p0l0": 1500,
                "p0s0": 1500,
            }
            assert links["p0l1-p0s0"].toward["p0s0"].mtu_bytes == 0
            assert lab.differences() == ()
            assert invoke(lab, "impair", "p0l0-p0s0", "--mtu", "off").exit_code == 0
            assert lab.impairment("p0l0-p0s0", "p0s0").is_off
            assert arrives(lab, 4000)
            again = run(*up)
            assert again.returncode == 1
            assert f"mrc lab impair --name {name} p0l0-p0s0 --toward p0s0 --mtu 1500" in again.stderr
            assert invoke(lab, "impair", "p0l1-p0s0", "--toward", "p0l1", "--mtu", "2000").exit_code == 0
            assert not arrives(lab, 1953)
            lab.clear("p0l1-p0s0")
            assert arrives(lab, 4000)
    finally:
        assert run(*MRC, "lab", "down", "--name", name).returncode == 0


def test_an_mtu_that_ipv6_does_not_allow() -> None:
    with pytest.raises(CallerError, match="mtu_bytes must be 0"):
        Impairment(mtu_bytes=1279)
