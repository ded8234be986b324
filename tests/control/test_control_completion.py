# SPDX-License-Identifier: BSD-2-Clause
"""Completion of endpoints and their peers, against endpoints in virtual time behind their sockets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from control_served import Served, serving

from mrc.cli import completing, main
from mrc.cli.commands import COMPLETE_VARIABLE


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "_ENDPOINTS_WAIT_S", 30.0)


def offered(served: Served | list[Served], *words: str) -> list[str]:
    completion = ShellComplete(main, {}, "mrc", COMPLETE_VARIABLE)
    found = serving(served, lambda: completion.get_completions(list(words[:-1]), words[-1]))
    return [each.value for each in found]


def test_endpoints_are_offered_by_name_and_pid(served: Served) -> None:
    assert offered(served, "ctl", "ev", "list", "--endpoint", "") == ["h0", str(os.getpid()), "all"]
    assert offered(served, "ctl", "ev", "list", "-e", "h") == ["h0"]
    assert offered(served, "top", "--endpoint", "") == ["h0", str(os.getpid())]


def test_peers_are_those_of_the_endpoints_that_are_meant(served: Served) -> None:
    assert offered(served, "ctl", "probe", "") == ["h1"]
    assert offered(served, "ctl", "ev", "deny", "--endpoint", "h0", "--peer", "") == ["h1"]
    assert offered(served, "ctl", "ev", "deny", "--endpoint", "h7", "--peer", "") == []


def test_evs_are_offered_by_spine_and_once_begun_by_number(served: Served) -> None:
    assert offered(served, "ctl", "ev", "deny", "p1") == ["p1s0", "p1s1", "p1s2", "p1s3"]
    assert offered(served, "ctl", "ev", "deny", "-e", "h0", "p1s0", "p1") == ["p1s1", "p1s2", "p1s3"]
    assert offered(served, "ctl", "ev", "replace", "0x01") == [f"0x0100000{spine}" for spine in range(4)]
    assert offered(served, "ctl", "probe", "h1", "p0s3") == ["p0s3"]


def test_profiles_are_offered_by_number(served: Served) -> None:
    assert offered(served, "ctl", "profile", "online", "ev", "") == ["0"]
    assert offered(served, "ctl", "ev", "list", "--profile", "") == ["0"]


def test_an_endpoint_that_does_not_answer_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket takes connections; its loop is busy."""
    monkeypatch.setattr(completing, "_ENDPOINTS_WAIT_S", 0.01)
    completion = ShellComplete(main, {}, "mrc", COMPLETE_VARIABLE)
    assert [each.value for each in completion.get_completions(["ctl", "ev", "list", "-e"], "")] == ["all"]


def test_without_endpoints_there_is_nothing_to_offer_but_all(directory: Path) -> None:
    completion = ShellComplete(main, {}, "mrc", COMPLETE_VARIABLE)
    assert [each.value for each in completion.get_completions(["ctl", "probe"], "")] == []
