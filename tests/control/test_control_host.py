# SPDX-License-Identifier: BSD-2-Clause
"""The device is the host's: what one process sets, others use, those that ran before and those that start after."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from control_pair import READY
from loopback import Inside, needs_root, own_loopback

from mrc.control import (
    CcProfileAttr,
    ControlError,
    Controller,
    EvFormatAttr,
    EvOp,
    EvOpKind,
    EvProfileAttr,
    PortAdmin,
    ProfileState,
)
from mrc.endpoint.congestion import FixedWindowConfig
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.net.control.host_device import HostDevice
from mrc.net.control.host_store import store_path
from mrc.net.device import fabric_of_this_host, open_device
from mrc.verbs import QP, Context, QPAttr, QPCap, QPState, VerbsError
from mrc.wire.entropy import EvMode

pytestmark = needs_root
ADDRESSES = ("127.0.0.2", "127.0.0.4")
OTHERS = ("127.0.0.3", "127.0.0.5")
OFFLINE, ONLINE = ProfileState.OFFLINE, ProfileState.ONLINE
INIT = ProfileState.INIT
EVS = (1, 2, 3, 4)
WITHIN_S = 20
# An application: has QPs name what it reads, and says what came of it.
APPLICATION = textwrap.dedent(
    """
    import sys
    from mrc.net.device import open_device
    from mrc.verbs import CQ, QP, Context, QPAttr, QPState, VerbsError

    with open_device(addresses=sys.argv[1].split(",")) as device, Context(device) as context:
        print("open", flush=True)
        cq, pd, made = CQ(context, 16), context.pd(), []
        for line in sys.stdin:
            word, *numbers = line.split()
            if word == "ports":
                print(*(int(port.up) for port in device.ports()), flush=True)
                continue
            if word == "close":
                made.pop().close()
                print("closed", flush=True)
                continue
            ev, cc = map(int, numbers)
            made.append(QP(pd, send_cq=cq, recv_cq=cq))
            try:
                made[-1].modify(QPAttr(qp_state=QPState.INIT, ev_profile_id=ev, cc_profile_id=cc))
                profile = context.evs_of(ev)
                print("uses", *profile.evs, flush=True)
            except VerbsError as error:
                made.pop().close()
                print(error.errno, flush=True)
    """
)


class Application:
    """One in a process of its own."""

    def __init__(self, addresses: tuple[str, ...] = ADDRESSES) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", APPLICATION, ",".join(addresses)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "open"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self._line()

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(WITHIN_S) == 0


@pytest.fixture
def inside(directory: Path) -> Iterator[Inside]:
    """Runs a function in a namespace of the test's own, where the host's files are in the test's own directory."""
    with own_loopback((*ADDRESSES, *OTHERS)) as run:
        yield run


@contextmanager
def a_controller(addresses: tuple[str, ...] = ADDRESSES) -> Iterator[Controller]:
    with HostDevice(fabric_of_this_host(addresses=addresses)) as device:
        yield Controller(device)


def _bring_online(controller: Controller, number: int, evs: tuple[int, ...] = EVS) -> None:
    controller.modify_ev_profile(
        number, EvProfileAttr(OFFLINE, EvProfileMode.EXPLICIT, format_id=0, count=len(evs), min_active=1)
    )
    batch = [EvOp(EvOpKind.REPLACE, index=place, new_ev=ev) for place, ev in enumerate(evs)]
    assert not any(result.errno for result in controller.ev_operations(number, batch))
    controller.modify_ev_profile(number, EvProfileAttr(ONLINE, **READY))
    controller.modify_cc_profile(number, CcProfileAttr(OFFLINE, algorithm="fixed"))
    controller.modify_cc_profile(number, CcProfileAttr(ONLINE, fixed=FixedWindowConfig()))


def _uses(evs: tuple[int, ...] = EVS) -> str:
    return f"uses {' '.join(map(str, evs))}"


def _until(condition: Callable[[], bool]) -> None:
    by = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < by
        time.sleep(0.01)


def test_applications_that_run_and_that_start_later_use_what_a_controller_sets(inside: Inside) -> None:
    def run() -> None:
        with Application() as before:
            assert before.ask("qp 13 13") == str(errno.ENOENT)
            with a_controller() as controller:
                _bring_online(controller, 13)
            assert before.ask("qp 13 13") == _uses()
        with Application() as after:
            assert after.ask("qp 13 13") == _uses()

    inside(run)


def test_the_device_is_known_by_its_addresses(inside: Inside) -> None:
    def run() -> None:
        with a_controller() as controller:
            _bring_online(controller, 13)
        with Application(OTHERS) as other:
            assert other.ask("qp 13 13") == str(errno.ENOENT)

    inside(run)


def test_what_changes_reaches_endpoints_that_name_nothing(inside: Inside) -> None:
    def run() -> None:
        with Application() as running, a_controller() as controller:
            assert running.ask("ports") == "1 1"
            controller.modify_port(2, PortAdmin.DOWN)
            _until(lambda: running.ask("ports") == "1 0")
            with Application((ADDRESSES[0],)) as of_another_device:
                assert of_another_device.ask("ports") == "1"
            controller.modify_port(2, PortAdmin.UP)
            _until(lambda: running.ask("ports") == "1 1")

    inside(run)


def test_two_controllers_see_what_the_other_has_set(inside: Inside) -> None:
    def run() -> None:
        with a_controller() as one, a_controller() as other:
            one.modify_ev_format(3, EvFormatAttr(OFFLINE, mode=EvMode.UDP))
            assert other.query_ev_format(3).mode == EvMode.UDP
            other.modify_ev_format(3, EvFormatAttr(ONLINE, fields=(8, 8)))
            assert one.query_ev_format(3) == EvFormatAttr(ONLINE, EvMode.UDP, (8, 8))
            one.modify_ev_format(3, EvFormatAttr(OFFLINE))
            one.modify_ev_format(3, EvFormatAttr(INIT))
            assert other.query_ev_format(3) == EvFormatAttr(INIT)

    inside(run)


def test_what_another_process_uses_is_not_taken_away(inside: Inside) -> None:
    def run() -> None:
        with a_controller() as controller, Application() as user:
            _bring_online(controller, 13)
            assert user.ask("qp 13 13") == _uses()
            ways: list[Callable[[], None]] = [
                lambda: controller.modify_ev_profile(13, EvProfileAttr(OFFLINE)),
                lambda: controller.modify_cc_profile(13, CcProfileAttr(OFFLINE)),
            ]
            for take_away in ways:
                with pytest.raises(ControlError, match="another process") as refused:
                    take_away()
                assert refused.value.errno == errno.EBUSY
            assert controller.query_ev_profile(13).state == controller.query_cc_profile(13).state == ONLINE
            assert user.ask("qp 13 13") == _uses()
            assert user.ask("close") == "closed"
            with pytest.raises(ControlError, match="another process"):
                controller.modify_ev_profile(13, EvProfileAttr(OFFLINE))
            assert user.ask("close") == "closed"
            controller.modify_ev_profile(13, EvProfileAttr(OFFLINE))
            controller.modify_cc_profile(13, CcProfileAttr(OFFLINE))
            assert user.ask("qp 13 0") == str(errno.ENOENT)

    inside(run)


def test_a_user_that_is_killed_holds_nothing(inside: Inside) -> None:
    def run() -> None:
        user = Application()
        with a_controller() as controller:
            _bring_online(controller, 13)
            assert user.ask("qp 13 0") == _uses()
            user.process.kill()
            user.process.communicate()
            controller.modify_ev_profile(13, EvProfileAttr(OFFLINE))

    inside(run)


def test_the_evs_of_a_profile_change_under_the_qps_of_others(inside: Inside) -> None:
    def run() -> None:
        with a_controller() as controller, open_device(addresses=ADDRESSES) as device, Context(device) as context:
            _bring_online(controller, 13)
            cq = context.cq(16)
            qp = QP(context.pd(), send_cq=cq, recv_cq=cq, cap=QPCap())
            qp.modify(QPAttr(qp_state=QPState.INIT, ev_profile_id=13))
            [result] = controller.ev_operations(13, [EvOp(EvOpKind.REPLACE, ev=1, new_ev=7)])
            assert result.errno == 0
            _until(lambda: context.evs_of(13).evs == (7, *EVS[1:]))
            online = device.endpoint.online
            controller.ev_operations(13, [EvOp(EvOpKind.MODIFY_STATE, ev=2, state=EvState.DENIED)])
            _until(lambda: online.denied_to_all(13) == {2})
            controller.ev_operations(13, [EvOp(EvOpKind.MODIFY_STATE, ev=2, state=EvState.GOOD)])
            _until(lambda: online.denied_to_all(13) == set())

    inside(run)


def test_without_cap_net_admin_nothing_changes(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.net.control.host_store.may_administer_the_network", lambda: False)

    def run() -> None:
        with a_controller() as controller:
            calls: list[Callable[[], object]] = [
                lambda: controller.modify_ev_format(3, EvFormatAttr(OFFLINE, mode=EvMode.UDP)),
                lambda: controller.modify_ev_profile(3, EvProfileAttr(OFFLINE, EvProfileMode.AUTO, format_id=0)),
                lambda: controller.modify_cc_profile(3, CcProfileAttr(OFFLINE, algorithm="fixed")),
                lambda: controller.modify_port(1, PortAdmin.DOWN),
                lambda: controller.ev_operations(0, [EvOp(EvOpKind.MODIFY_STATE, ev=1, state=EvState.DENIED)]),
            ]
            for call in calls:
                with pytest.raises(ControlError, match="CAP_NET_ADMIN") as refused:
                    call()
                assert refused.value.errno == errno.EPERM
            assert controller.query_ev_format(3).state == INIT
            assert controller.query_port(1).up
            (asked,) = controller.ev_operations(0, [EvOp(EvOpKind.QUERY_STATE, ev=1)])
            assert (asked.errno, asked.state) == (0, EvState.GOOD)
        assert not store_path(fabric_of_this_host(addresses=ADDRESSES)).exists()

    inside(run)


def test_cap_net_admin_is_what_the_kernel_says(inside: Inside) -> None:
    script = "from mrc.net.control.host_store import may_administer_the_network as may; print(may())"
    command = [sys.executable, "-c", script]
    dropped = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", *command]
    said = [subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in (command, dropped)]
    assert said == ["True\n", "False\n"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"ports": {"9": "down"}}',
        b'{"ev_profiles": {"13": {"state": "online", "is": {"mode": 3}}}}',
        b'{"ev_profiles": {"70000": {"state": "init"}}}',
        b'{"cc_profiles": {"1": {"state": "online", "is": {"algorithm": "x"}}}}',
        b'{"ev_profiles": 3, "ports": {"a": 1}}',
    ],
)
def test_a_file_that_is_none_changes_nothing(content: bytes, inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    def run() -> None:
        path = store_path(fabric_of_this_host(addresses=ADDRESSES))
        path.parent.mkdir()
        path.write_bytes(content)
        with open_device(addresses=ADDRESSES) as device:
            assert [port.up for port in device.ports()] == [True, True]

    inside(run)
    assert caplog.messages


def test_a_file_that_others_may_write_is_not_followed(inside: Inside) -> None:
    def run() -> None:
        path = store_path(fabric_of_this_host(addresses=ADDRESSES))
        path.parent.mkdir()
        path.write_text(json.dumps({"ports": {"1": "down"}}))
        for mode, up in ((0o666, True), (0o644, False)):
            path.chmod(mode)
            os.utime(path)
            with open_device(addresses=ADDRESSES) as device:
                assert device.ports()[0].up == up

    inside(run)


def test_a_batch_that_fails_in_the_middle_has_done_what_came_before(inside: Inside) -> None:
    def run() -> None:
        with a_controller() as one, a_controller() as other:
            _bring_online(one, 13)
            batch = [EvOp(EvOpKind.REPLACE, ev=1, new_ev=7), EvOp(EvOpKind.REPLACE, ev=99, new_ev=8)]
            assert [result.errno for result in one.ev_operations(13, batch)] == [0, errno.ENOENT]
            assert other.query_ev_array(13) == [7, *EVS[1:]]

    inside(run)


def test_profiles_that_a_program_brings_itself_stay_its_own(inside: Inside) -> None:
    def run() -> None:
        with open_device(addresses=ADDRESSES) as device, Context(device) as context, a_controller() as controller:
            context.cc_profile(5, "fixed")
            assert controller.query_cc_profile(5).state == INIT
            with pytest.raises(VerbsError):
                context.cc_profile(5, "fixed")

    inside(run)
