# SPDX-License-Identifier: BSD-2-Clause
"""A thread that goes first, where the process may say so."""

from __future__ import annotations

import os
import threading

import pytest
from loopback import skipped_without_root

from mrc.net.priority import NICE, go_first


def in_a_thread() -> int:
    """How nice a thread is that goes first."""
    found: list[int] = []

    def run() -> None:
        go_first()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.root
@skipped_without_root
def test_a_thread_goes_first_and_no_other_of_its_process() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert in_a_thread() == min(NICE, before)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_without_the_privilege_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(which: int, who: int, priority: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    assert in_a_thread() == os.getpriority(os.PRIO_PROCESS, 0)
