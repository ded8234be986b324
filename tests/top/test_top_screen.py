# SPDX-License-Identifier: BSD-2-Clause
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


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (60, 16), (45, 12), (100, 20)], ids=str)
@pytest.mark.parametrize("endpoints", [1, 3])
@pytest.mark.parametrize("qps", [1, 20])
def test_on_a_small_terminal_keys_and_the_chosen_ev_are_seen(size: tuple[int, int], endpoints: int, qps: int) -> None:
    width, height = size
    view = View(chosen=5, message="denied", events=["an event"] * 9)
    lines = shown([transfer(qps=qps)] * endpoints, view, width=width, height=height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert lines[-1].endswith("q quit")
    assert "d deny" in lines[-1]
    assert "a allow" in lines[-1]
    assert lines[-2] == "denied"
    (marked,) = [line for line in lines if line.startswith(">") and "0x" in line]
    assert f"{5:#010x}" in marked
    assert endpoints == 1 or "1 of 3" in lines[0] or width < 80


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


def busy(peer: str) -> Picture:
    """A QP and EVs with the widest figures that are usual: 12.34 Gbit/s, 100.0 % sent again, 1000 KiB, 12.34 ms."""
    before = [path(1, peer=peer), path(2, peer=peer)]
    after = [
        path(1, peer=peer, packets=1_234_567, lost=123_456, marked=1_234_567),
        path(2, peer=peer, packets=1, state="assumed_bad"),
    ]
    old = qp(0xABCDEF, peer=peer)
    rates = {"data_bytes_sent": 1_542_500_000, "bytes_placed": 1_542_500_000}
    again = {"data_packets_sent": 1000, "retransmitted_packets": 1000}
    windows = {"cwnd_bytes": 1_024_000, "inflight_bytes": 1_023_000, "srtt_us": 12_340.0}
    now = status(1, [qp(0xABCDEF, peer=peer, **rates, **again, **windows)], after)
    now["peers"] = [{"peer": peer, "planes_down": []}]
    return picture(now, {**status(0, [old], before), "peers": now["peers"]})


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("peer", ["h1", "192.168.0.1", "fd4d:5243::2"])
def test_on_eighty_columns_no_figure_of_a_qp_and_no_word_is_cut(peer: str, keys: bool) -> None:
    """What is there is there whole: nothing ends in an ellipsis but the title, which may be long."""
    lines = shown([busy(peer)], View(keys=keys), width=80)
    assert all(len(line) <= 80 for line in lines)
    assert not any("…" in line for line in lines[1:])
    (row,) = [line.split() for line in lines if "0xabcdef" in line]
    assert row == [
        "0xabcdef", peer, "RTS", "12.34", "12.34", "100.0%", "1000", "KiB", "999", "KiB", "12.34"
    ]  # fmt: skip
    (ev,) = [line for line in lines if "0x00000001" in line]
    assert {"0x00000001", "GOOD", "1,234,567", "10.0%"} <= set(ev.split())
    assert any("ASSUMED_BAD" in line for line in lines)
    assert not keys or lines[-1].endswith("q quit")


def test_where_it_is_narrower_columns_are_left_out_the_least_needed_first() -> None:
    """Of the EVs the bar, then the total of losses; what an EV is, its state, its rate and its loss stay."""
    headings = {}
    for width in (130, 80, 60, 45):
        lines = shown([busy("h1")], View(), width=width)
        (heading,) = [line for line in lines if "EV  state" in line]
        headings[width] = heading.split()
        assert not any("…" in line for line in lines if "0x" in line)
    everything = ["peer", "plane", "spine", "EV", "state", "packets/s", "share", "loss", "marked", "lost"]
    assert headings[130] == everything
    assert headings[80] == everything[:-1]
    assert headings[45] == ["EV", "state", "packets/s", "loss"]
    assert set(headings[45]) < set(headings[60]) < set(headings[80])


def test_peers_ports_that_are_down_are_shown_and_evs_that_are_out_of_use_for_it() -> None:
    told = status(1, [qp(1)], [path(0), path(0, peer="h2"), path(1, peer="h2", state="assumed_bad")])
    told["peers"][1]["planes_down"] = [0]
    lines = shown([picture(told)], View(), width=80)
    planes = {line.split()[0]: line for line in lines if "/" in line and line.split()[0].isdigit()}
    assert planes["0"].split()[:5] == ["0", "up", "down:", "h2", "1/3"]
    assert planes["1"].split()[:4] == ["1", "down", "up", "0/0"]
    evs = [line for line in lines if "0x0000000" in line]
    assert ["PORT DOWN" in line for line in evs] == [False, True, False]
    assert "ASSUMED_BAD" in evs[2]


def test_a_failed_qp_says_why_below_the_table() -> None:
    failed = status(1, [qp(0xABCDEF, state="ERROR", error="retry counter exceeded: PSN 7")], [path(0)])
    lines = shown([picture(failed)], View(), width=80)
    (row,) = [line for line in lines if line.startswith("0xabcdef")]
    assert "ERROR" in row
    assert "QP 0xabcdef failed: retry counter exceeded: PSN 7" in lines


def test_on_eighty_columns_the_bars_give_way_and_evs_states_and_losses_stay() -> None:
    lines = shown([transfer()], View(), width=80)
    assert all(len(line) <= 80 for line in lines)
    (bad,) = [line for line in lines if "0x00000003" in line]
    assert "ASSUMED_BAD" in bad
    (lossy,) = [line for line in lines if "0x00000002" in line]
    assert {"GOOD", "10.0%"} <= set(lossy.split())


def test_what_an_endpoint_says_does_nothing_to_the_terminal() -> None:
    """Whoever listens at a control socket may call itself anything: escapes, halves of characters, Rich's markup."""
    words = "\x1b[2J\ud800[red]\u202e"
    told = status(
        1, [qp(0xABCDEF, state=words, error=words, peer=words)], [path(0, peer=words, state=words), path(1, peer=words)]
    )
    told["endpoint"]["name"] = told["endpoint"]["program"] = words
    told["peers"][0]["planes_down"] = [0]
    told["peers"][0]["peer"] = words
    again = picture(told)
    lines = shown([again, again], View(message=words, events=[words]), width=200)
    assert all(line.isprintable() for line in lines)
    text = " ".join(lines).lower()
    # The title, both rows of endpoints, the plane's peers, the QP and why it failed, paths, the event, the message.
    assert text.count("\\x1b[2j\\ud800[red]\\u202e") >= 9
