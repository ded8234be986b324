"""The screen: what it says, that it fits, and what the keys do to it."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console
from test_top_figures import path, qp, status

from mrc.top.figures import Picture, picture
from mrc.top.screen import View, screen

EVS = [plane << 24 | spine for plane in range(2) for spine in range(4)]


def shown(pictures: Sequence[Picture], view: View, *, which: int = 0, width: int = 120, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(screen(pictures, which, view, height))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def transfer(paths: int = 8, qps: int = 1) -> Picture:
    """Half of all packets are on EV 2, which lost 10 %; EV 3 is ASSUMED_BAD."""
    before = [path(number) for number in range(paths)]
    after = [path(number, packets=100) for number in range(paths)]
    after[2] = path(2, packets=100 * (paths - 1), lost=10 * (paths - 1))
    after[3] = path(3, state="assumed_bad", packets=100)
    old = status(0, [qp(number) for number in range(qps)], before)
    return picture(status(1, [qp(number, data_bytes_sent=25_000_000) for number in range(qps)], after), old)


def test_it_says_who_how_fast_and_where() -> None:
    lines = shown([transfer()], View())
    assert lines[0].startswith("mrc/h0  mrc send  pid 7  out 0.20 Gbit/s")
    (lossy,) = [line for line in lines if "0x00000002" in line]
    assert "50%" in lossy
    assert "10.0%" in lossy
    (bad,) = [line for line in lines if "0x00000003" in line]
    assert "ASSUMED_BAD" in bad
    (down,) = [line for line in lines if "down" in line and "choose" not in line]
    assert down.split()[:2] == ["1", "down"]


@pytest.mark.parametrize("height", [24, 30, 60])
@pytest.mark.parametrize("paths", [8, 200])
def test_it_fits_the_terminal_and_the_chosen_ev_is_on_it(height: int, paths: int) -> None:
    view = View(chosen=paths - 2, events=[f"event {number}" for number in range(50)], message="something")
    lines = shown([transfer(paths, qps=20)], view, height=height)
    assert len(lines) <= height
    (marked,) = [line for line in lines if line.lstrip().startswith(">")]
    assert f"{paths - 2:#010x}" in marked


def test_the_chosen_ev_stays_in_range_when_evs_go() -> None:
    view = View(chosen=150, top=140)
    lines = shown([transfer(8)], view)
    assert view.chosen == 7
    assert any(line.lstrip().startswith(">") and "0x00000007" in line for line in lines)


def test_several_endpoints_are_listed_and_one_is_shown() -> None:
    lines = shown([transfer(), transfer(qps=3)], View(), which=1)
    rows = [line for line in lines if "mrc/h0 mrc send" in line]
    assert [row.lstrip().startswith(">") for row in rows] == [False, True]
    assert any("QP (3)" in line for line in lines)


def test_without_keys_there_is_no_cursor_and_no_list_of_keys() -> None:
    lines = shown([transfer()], View(keys=False))
    assert not any(line.lstrip().startswith(">") or "quit" in line for line in lines)


def test_a_narrow_terminal_loses_words_not_lines() -> None:
    assert len(shown([transfer()], View(message="m" * 300), width=60, height=40)) <= 40


def test_on_eighty_columns_the_bars_give_way_and_evs_states_and_losses_stay() -> None:
    lines = shown([transfer()], View(), width=80)
    assert all(len(line) <= 80 for line in lines)
    (bad,) = [line for line in lines if "0x00000003" in line]
    assert "ASSUMED_BAD" in bad
    (lossy,) = [line for line in lines if "0x00000002" in line]
    assert {"GOOD", "10.0%"} <= set(lossy.split())
