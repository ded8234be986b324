# SPDX-License-Identifier: BSD-2-Clause
"""What is read ahead: in order, and closed in the midst of an item of many parts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from patience import PATIENCE_S

from mrc.errors import SystemRefused
from mrc.net.transfer import ahead
from mrc.net.transfer.ahead import Ahead


@pytest.mark.parametrize("threads", [True, False])
def test_parts_are_no_items(threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise SystemRefused("no thread")

    if not threads:
        monkeypatch.setattr(ahead, "start_thread", refused)
    with closing(Ahead(iter([None, 1, None, None, 2, None]))) as items:
        assert list(items) == [1, 2]


def test_closing_waits_for_a_part_and_not_for_an_item() -> None:
    closing_now = threading.Event()

    def parts() -> Iterator[int | None]:
        yield 1
        assert closing_now.wait(PATIENCE_S)
        while True:
            yield None

    items = Ahead(parts())
    assert next(iter(items)) == 1
    closing_now.set()
    items.close()
