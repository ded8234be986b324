# SPDX-License-Identifier: BSD-2-Clause
"""Which endpoint `mrc top` shows: the one that sends most, until a key chooses."""

from __future__ import annotations

import dataclasses

from rich.console import Console
from test_top_screen import transfer

from mrc.top.figures import Picture
from mrc.top.live import LiveView
from mrc.top.watching import Watch

HEIGHT = 40


class Given(Watch):
    """Shows pictures that it is given."""

    def __init__(self, *pictures: Picture) -> None:
        super().__init__(list)
        self.pictures = list(pictures)

    def look(self) -> list[Picture]:
        return self.pictures


def endpoint(pid: int, sent_gbps: float | None) -> Picture:
    """With `sent_gbps` of None one without QPs."""
    made = dataclasses.replace(transfer(), pid=pid, sent_gbps=sent_gbps)
    return made if sent_gbps is not None else dataclasses.replace(made, qps=(), paths=())


def shown_pid(view: LiveView) -> int:
    view.look()
    console = Console(width=120, height=HEIGHT)
    with console.capture() as capture:
        console.print(view.drawn(HEIGHT))
    return int(capture.get().splitlines()[0].split("pid ")[1].split()[0])


def test_the_endpoint_that_sends_most_comes_first_and_stays() -> None:
    watch = Given(endpoint(1, None), endpoint(2, 0.0), endpoint(3, 1.5))
    view = LiveView(watch)
    assert shown_pid(view) == 3
    watch.pictures[1] = endpoint(2, 9.0)
    assert shown_pid(view) == 3
    del watch.pictures[2]
    assert shown_pid(view) == 2


def test_one_without_qps_gives_way_to_one_that_has_some() -> None:
    watch = Given(endpoint(1, None))
    view = LiveView(watch)
    assert shown_pid(view) == 1
    watch.pictures.append(endpoint(2, 0.1))
    assert shown_pid(view) == 2


def test_what_a_key_has_chosen_stays() -> None:
    watch = Given(endpoint(1, 2.0), endpoint(2, None))
    view = LiveView(watch)
    assert shown_pid(view) == 1
    view.key("tab")
    assert shown_pid(view) == 2
    assert shown_pid(view) == 2
