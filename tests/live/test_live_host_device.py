# SPDX-License-Identifier: BSD-2-Clause
"""In a lab the device is the host's: a controller steers transfers of other processes; its file goes with the lab."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import programs
import pytest
from loopback import needs_root
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.control import Controller, EvOp, EvOpKind, EvProfileAttr, PortAdmin
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.fabric import Clos, Fabric
from mrc.lab import Lab, state
from mrc.net.control.host_device import HostDevice

pytestmark = needs_root


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.up(f"hostdev-{os.getpid()}", Clos(planes=2, spines=2)) as built:
        yield built


def _run(lab: Lab, host: str, *command: str) -> subprocess.CompletedProcess[str]:
    process = lab.popen(
        host, [*MRC, *command], start=programs.start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _packets(lab: Lab, plane: int) -> int:
    """Data that h0 has sent on a plane."""
    return next(each for each in lab.status().links if each.name == f"h0-p{plane}l0").toward[f"p{plane}l0"].bytes


@contextmanager
def _sending(lab: Lab, folder: Path, mib: int) -> Iterator[subprocess.Popen[str]]:
    """A transfer from h0 to h1 under way, by processes that know nothing of a controller. It ends well."""
    file = folder / "content"
    file.write_bytes(os.urandom(mib << 20))
    received = folder / "received"
    received.mkdir(exist_ok=True)
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    receiver = lab.popen("h1", [*MRC, "recv", "--dir", str(received), "--overwrite"], start=programs.start, **options)
    try:
        assert receiver.stdout is not None
        ticket = receiver.stdout.readline().split()[-1]
        sender = lab.popen("h0", [*MRC, "send", str(file), ticket], start=programs.start, **options)
        try:
            yield sender
            _, err = sender.communicate(timeout=PATIENCE_S)
            assert sender.returncode == 0, err
        finally:
            sender.kill()
    finally:
        receiver.kill()
        receiver.communicate()


def _write(lab: Lab, folder: Path) -> None:
    with _sending(lab, folder, 2):
        pass


def _deny(lab: Lab, ev: int) -> None:
    with HostDevice(Fabric.load(lab.fabric_path("h0"))) as device:
        operation = EvOp(EvOpKind.MODIFY_STATE, ev=ev, state=EvState.DENIED)
        assert [result.errno for result in Controller(device).ev_operations(0, [operation])] == [0]


def _through(lab: Lab, spine: str) -> int:
    """Bytes that a spine of plane 0 got from the leaf of h0."""
    return next(each for each in lab.status().links if each.name == f"p0l0-{spine}").toward[spine].bytes


def test_a_path_that_is_denied_carries_nothing_of_a_transfer_under_way(lab: Lab, tmp_path: Path) -> None:
    for plane in (0, 1):
        lab.impair(f"h0-p{plane}l0", toward=f"p{plane}l0", rate_bps=40_000_000, queue_bytes=200_000)
    with _sending(lab, tmp_path, 24) as sender:
        eventually(lambda: _through(lab, "p0s0") > 200_000)
        lab.inside("h0", lambda: _deny(lab, 0))
        time.sleep(0.5)  # what is queued at the port
        denied, other = (_through(lab, spine) for spine in ("p0s0", "p0s1"))
        eventually(lambda: _through(lab, "p0s1") - other > 200_000)
        assert sender.poll() is None
        assert _through(lab, "p0s0") - denied < 10_000
        for plane in (0, 1):
            lab.clear(f"h0-p{plane}l0", f"p{plane}l0")


def test_a_port_that_a_controller_sets_down_carries_nothing_of_a_sender_that_starts_later(
    lab: Lab, tmp_path: Path
) -> None:
    _write(lab, tmp_path)
    assert min(_packets(lab, plane) for plane in (0, 1)) > 500_000
    lab.inside("h0", lambda: _set_port(lab, PortAdmin.DOWN))
    before = _packets(lab, 0)
    _write(lab, tmp_path)
    assert _packets(lab, 0) - before < 100_000
    lab.inside("h0", lambda: _set_port(lab, PortAdmin.UP))
    before = _packets(lab, 0)
    _write(lab, tmp_path)
    assert _packets(lab, 0) - before > 500_000


def _set_port(lab: Lab, admin: PortAdmin) -> None:
    with HostDevice(Fabric.load(lab.fabric_path("h0"))) as device:
        Controller(device).modify_port(1, admin)


def test_mrc_ctl_is_a_view_of_it(lab: Lab) -> None:
    profiles = state.directory(lab.name) / "profiles.yaml"
    profiles.write_text("ev_profiles:\n  5: {mode: explicit, evs: [p0s0, p1s1]}\n")
    loaded = _run(lab, "h0", "ctl", "profile", "load", str(profiles), "--endpoint", "host")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert "EV profile 5" in loaded.stdout

    def see() -> None:
        with HostDevice(Fabric.load(lab.fabric_path("h0"))) as device:
            controller = Controller(device)
            assert controller.query_ev_array(5) == [0, 0x01000001]
            controller.modify_ev_profile(
                6, EvProfileAttr(controller.query_ev_format(1).state.OFFLINE, EvProfileMode.AUTO, format_id=0)
            )
            assert not controller.ev_operations(5, [EvOp(EvOpKind.MODIFY_STATE, ev=0, state=EvState.DENIED)])[0].errno

    lab.inside("h0", see)
    shown = json.loads(_run(lab, "h0", "ctl", "profile", "show", "-e", "host", "--json").stdout)["endpoints"][0]
    assert (shown["name"], shown["ev_profiles"]["6"]["state"]) == (f"{lab.name}/h0", "offline")
    assert json.loads(_run(lab, "h1", "ctl", "profile", "show", "-e", "host", "--json").stdout)["endpoints"][0][
        "ev_profiles"
    ].keys() == {"0"}
    down = _run(lab, "h0", "ctl", "ports", "down", "1", "--endpoint", "host")
    assert (down.returncode, down.stderr) == (0, "")
    ports = json.loads(_run(lab, "h0", "ctl", "ports", "show", "-e", "host", "--json").stdout)["endpoints"][0]["ports"]
    assert [port["admin"] for port in ports] == ["up", "down"]


def test_it_goes_with_the_lab() -> None:
    name = f"hostgone-{os.getpid()}"
    for _ in range(2):
        with Lab.up(name, Clos(planes=1, spines=1)) as lab:
            path = state.directory(name) / "h0.device"
            assert not path.exists()
            lab.inside("h0", lambda lab=lab: _set_port(lab, PortAdmin.DOWN))  # type: ignore[misc]
            assert path.exists()
        assert not path.parent.exists()
