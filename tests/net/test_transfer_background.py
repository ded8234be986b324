# SPDX-License-Identifier: BSD-2-Clause
"""Work beside a session: in order, and what it raises reaches who waits for it."""

from __future__ import annotations

import pytest

from mrc.errors import SystemRefused
from mrc.net.transfer import background
from mrc.net.transfer.background import Background


def _fails() -> None:
    raise ValueError("a piece")


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize("end", ["join", "close"])
def test_what_a_piece_raises_is_raised_once_by_who_waits(
    threads: bool, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise SystemRefused("no thread")

    if not threads:
        monkeypatch.setattr(background, "start_thread", refused)
    done: list[int] = []
    work = Background("work")
    work.submit(lambda: done.append(1))
    work.submit(_fails)
    work.submit(lambda: done.append(2))
    with pytest.raises(ValueError, match="a piece"):
        getattr(work, end)()
    assert done == [1, 2]
    work.join()
    work.close()
