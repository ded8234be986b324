# SPDX-License-Identifier: BSD-2-Clause
"""A peer by its GID: in a lab, between hosts with one address and with several; and `mrc capi`."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from dataclasses import replace
from errno import ENOENT
from pathlib import Path

import pytest
from c_programs import EXAMPLES, compiled, environment, finished, needs_compiler, runs_programs
from click.testing import CliRunner
from loopback import Inside

from mrc.capi import build
from mrc.capi.gids import HOSTS_VARIABLE, Peers, address_of, gid_of
from mrc.cli import main
from mrc.fabric.host_view import HOST_FABRIC, Fabric, FabricPort
from mrc.net.device import FABRIC_VARIABLE
from mrc.net.negotiation import NodeDescription, PortDescription
from mrc.verbs import VerbsError


def fabric(host: int, addresses: list[str], name: str = HOST_FABRIC, mode: str = "udp") -> Fabric:
    ports = [FabricPort(plane, f"p{plane}", address, 3 + host, 0) for plane, address in enumerate(addresses)]
    return Fabric(name=name, host=host, mtu=4400, ports=tuple(ports), mode=mode)


def peers(own: Fabric) -> Peers:
    return Peers(own, NodeDescription.of(own, path_mtu=2048))


@pytest.mark.parametrize("address", ["10.0.0.1", "fd4d:5243::2"])
def test_a_gid_is_an_address(address: str) -> None:
    assert len(gid_of(address)) == 16
    assert address_of(gid_of(address)) == address
    mapped = ipaddress.IPv6Address(gid_of(address)).ipv4_mapped
    assert (str(mapped) == address) == ("." in address)


def test_between_hosts_with_one_address_a_gid_is_enough() -> None:
    found = peers(fabric(0, ["10.0.0.1"])).find(gid_of("10.0.0.2"))
    assert found.ports == (PortDescription(0, "10.0.0.2", 0),)
    assert (found.mode, found.path_mtu) == ("udp", 2048)


def test_hosts_with_several_addresses_are_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = peers(fabric(0, ["10.0.0.1", "10.1.0.1"]))
    with pytest.raises(VerbsError, match=f"name a file of all hosts in {HOSTS_VARIABLE}") as caught:
        own.find(gid_of("10.0.0.2"))
    assert caught.value.errno == ENOENT
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"hosts": [["10.0.0.1", "10.1.0.1"], ["10.0.0.2", "10.1.0.2"]]}))
    monkeypatch.setenv(HOSTS_VARIABLE, str(path))
    found = own.find(gid_of("10.0.0.2"))
    assert [(port.plane, port.address) for port in found.ports] == [(0, "10.0.0.2"), (1, "10.1.0.2")]
    with pytest.raises(VerbsError, match=f"hosts.json .{HOSTS_VARIABLE}. has no host whose first address is 10.1.0.2"):
        own.find(gid_of("10.1.0.2"))


@pytest.mark.parametrize("text", ["[]", '{"hosts": 3}', '{"hosts": [[]]}', '{"hosts": [["x"]]}', '{"hosts": [[1]]}'])
def test_what_is_no_hosts_file_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hosts.json"
    path.write_text(text)
    monkeypatch.setenv(HOSTS_VARIABLE, str(path))
    with pytest.raises(VerbsError, match="a hosts file is an object"):
        peers(fabric(0, ["10.0.0.1", "10.1.0.1"])).find(gid_of("10.0.0.2"))


def test_in_a_lab_leaf_and_planes_are_those_of_the_other_hosts_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [fabric(host, [f"fd4d:5243::{host + 1}", f"fd4d:5243:1::{host + 1}"], "lab", "srv6") for host in (0, 1)]
    for host in hosts:
        (tmp_path / f"h{host.host}.json").write_text(host.to_json())
    (tmp_path / "other.json").write_text(replace(hosts[1], name="other").to_json())
    (tmp_path / "lab.json").write_text("{}")
    monkeypatch.setenv(FABRIC_VARIABLE, str(tmp_path / "h0.json"))
    found = peers(hosts[0]).find(gid_of("fd4d:5243::2"))
    assert (found.host, found.mode) == (1, "srv6")
    assert [(port.plane, port.leaf) for port in found.ports] == [(0, 4), (1, 4)]
    with pytest.raises(VerbsError, match="no host of lab has the GID fd4d:5243::9"):
        peers(hosts[0]).find(gid_of("fd4d:5243::9"))


@pytest.mark.parametrize("mark", [pytest.param("", marks=runs_programs)])
def test_two_planes_of_ordinary_hosts_carry_a_program(mark: str, inside: Inside, tmp_path: Path) -> None:
    program = str(compiled(EXAMPLES / "write.c", tmp_path))
    hosts = [["127.0.0.2", "127.0.1.2"], ["127.0.0.3", "127.0.1.3"]]
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"hosts": hosts}))
    ended: list[tuple[int, str]] = []

    def run() -> None:
        started = [
            subprocess.Popen(
                [program, "7003", *host],
                env=environment(",".join(own), MRC_HOSTS=str(path)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for own, host in zip(hosts, ([], ["127.0.0.1"]), strict=True)
        ]
        ended.extend((each.returncode, each.stdout) for each in finished(*started))

    inside(run)
    assert [status for status, _ in ended] == [0, 0]
    assert ended[0][1].endswith(" 0 wrong\n")


# ------------------------------------------------------------------ mrc capi


@needs_compiler
def test_the_command_prints_what_a_shell_and_a_compiler_take(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(main, ["capi", "path"]).output == f"{build.LIB}\n"
    assert json.loads(run(main, ["capi", "path", "--json"]).stdout) == {"path": str(build.LIB)}
    flags = run(main, ["capi", "pkg-config"]).output
    exports = run(main, ["capi", "env"]).output
    # With the options; with the variables and the names that other vendors' libraries have.
    script = f'''{exports}
    cc "{EXAMPLES}/mrc_write.c" {flags.strip()} -o "{tmp_path}/write"
    cc "{EXAMPLES}/mrc_write.c" -lmrc -l:libibverbs.so.1 -o "{tmp_path}/other"
    echo "$LD_LIBRARY_PATH:$CPATH"'''
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": "/usr/bin:/bin", "CPATH": "/x"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{build.LIB}:{build.INCLUDE}:/x\n"
    assert (tmp_path / "write").exists()
    assert (tmp_path / "other").exists()


def test_where_there_is_no_library_the_command_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "LIB", tmp_path)
    done = CliRunner().invoke(main, ["capi", "path"])
    assert done.exit_code == 1
    assert "tools/build-core" in done.stderr
