# SPDX-License-Identifier: BSD-2-Clause
"""R_Keys of a node: 32 bits that nobody can guess, from any thread (docs/security.md)."""

from __future__ import annotations

import threading

import pytest

from mrc.net import rkeys
from mrc.net.rkeys import RKeys


def test_r_keys_are_the_systems_random_bytes_each_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    def urandom(count: int) -> bytes:
        drawn.append(bytes((count + at) % 251 for at in range(count)))
        return drawn[-1]

    monkeypatch.setattr(rkeys.os, "urandom", urandom)
    draw = RKeys()
    keys = [draw() for _ in range(1500)]
    assert len(drawn) == 2
    assert sorted(keys[:1024]) == sorted(memoryview(drawn[0]).cast("I"))
    assert set(keys[1024:]) <= set(memoryview(drawn[1]).cast("I"))


def test_two_nodes_and_many_threads_draw_different_ones() -> None:
    draw, other = RKeys(), RKeys()
    keys: list[int] = []
    threads = [threading.Thread(target=lambda: keys.extend(draw() for _ in range(5000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys += [other() for _ in range(5000)]
    assert all(0 <= key < 1 << 32 for key in keys)
    # Of 25,000 random numbers of 32 bits two are the same with probability 0.07, ten pairs never.
    assert len(keys) - len(set(keys)) < 10
