# SPDX-License-Identifier: BSD-2-Clause
"""The screen of `mrc top`: the picture of an endpoint as tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from mrc.report.units import goodput_text, narrow_size_text, number_text
from mrc.top.figures import IN_USE, PathFigures, Picture, PlaneFigures, QpFigures
from mrc.top.fitted import Column, FittedTable, foreign

# The longest that fits; 60 columns take the second.
KEYS = (
    "up/down choose an EV  d deny it  a allow it  tab next endpoint  p pause  q quit",
    "j/k choose  d deny  a allow  tab next  p pause  q quit",
    "d deny  a allow  q quit",
)
_STATE_STYLE = {"good": "green", "skip": "yellow", "assumed_bad": "red", "denied": "magenta"}
_BAR = 12
# Lines that are no rows: the title, three tables with a gap, a heading (one of two lines) and a rule each, the message,
# the keys.
_FRAME = 13
_GAP = Text("")
_LEAST_ROWS, _MOST_QPS, _MOST_EVENTS = 3, 6, 6
_NAMED_PEERS = 3
# A gap, a heading and a rule above each table.
_TABLE_FRAME = 3


@dataclass(slots=True)
class View:
    """What the person at the keys has chosen, if there are keys. `top` is the first path shown."""

    keys: bool = True
    chosen: int = 0
    top: int = 0
    paused: bool = False
    message: str = ""
    events: list[str] = field(default_factory=list)


def screen(pictures: Sequence[Picture], shown: int, view: View, height: int) -> RenderableType:
    """All endpoints in a line each if there are several, and the one at `shown` in whole, within `height` lines.

    Where that is too little the table of endpoints goes first, then that of planes, then that of QPs: paths and keys
    are always there.
    """
    picture = pictures[shown]
    parts: list[RenderableType] = [_title(picture, view, shown, len(pictures))]
    room = height - _FRAME
    others, planes = len(pictures) + _TABLE_FRAME, len(picture.planes)
    if len(pictures) > 1 and room - others - planes - 1 >= _LEAST_ROWS:
        parts += [_GAP, _endpoints(pictures, shown)]
        room -= others
    if room - planes - 1 >= _LEAST_ROWS:
        parts += [_GAP, _planes(picture.planes)]
        room -= planes
    else:
        room += _TABLE_FRAME
    if room - 1 < _LEAST_ROWS:
        room += _TABLE_FRAME + 1
        parts += [_GAP, _paths(picture.paths, view, max(1, room))]
        return Group(*parts, *_below(view))
    qps = picture.qps[: max(_LEAST_ROWS if room >= 3 * _LEAST_ROWS else 1, min(_MOST_QPS, room // 4))]
    failed = [f"QP {qp.qp_num:#x} failed: {qp.error}" for qp in qps if qp.error]
    parts += [_GAP, _qps(qps, picture.qps_total)]
    parts += [foreign(line, "bold red", no_wrap=True, overflow="ellipsis") for line in failed]
    room -= len(qps) + len(failed)
    events = view.events[-max(0, min(_MOST_EVENTS, room // 4)) :] if room >= 4 * _LEAST_ROWS else []
    parts += [_GAP, _paths(picture.paths, view, max(_LEAST_ROWS, room - len(events)))]
    parts += [foreign(line, "dim", no_wrap=True, overflow="ellipsis") for line in events]
    return Group(*parts, *_below(view))


def _below(view: View) -> list[RenderableType]:
    """The message and the keys."""
    parts: list[RenderableType] = []
    if view.message:
        parts.append(foreign(view.message, "bold", no_wrap=True, overflow="ellipsis"))
    if view.keys:
        parts.append(_KeyLine())
    return parts


class _KeyLine:
    """What the keys do, in as many words as there is room for."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitting = [text for text in KEYS if len(text) <= options.max_width]
        yield Text(fitting[0] if fitting else KEYS[-1], style="dim", no_wrap=True, overflow="ellipsis")


def describe_path(path: PathFigures) -> str:
    """`EV 0x01000002 (plane 1, spine 2) towards h1`."""
    way = f"plane {path.plane}" if path.spine is None else f"plane {path.plane}, spine {path.spine}"
    return f"EV {path.ev:#010x} ({way}) towards {path.peer}"


def _title(picture: Picture, view: View, shown: int, of: int) -> Text:
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(foreign(f"{picture.name}  {picture.program}", "bold"))
    if of > 1:
        title.append(f"  {shown + 1} of {of}")
    title.append(f"  pid {picture.pid}  ")
    title.append(f"out {goodput_text(picture.sent_gbps)}  in {goodput_text(picture.received_gbps)}", style="bold cyan")
    title.append(f"  sent again {picture.retransmitted}")
    if view.paused:
        title.append("  PAUSED", style="bold yellow")
    return title


def _endpoints(pictures: Sequence[Picture], shown: int) -> FittedTable:
    table = FittedTable(
        Column("", left=True),
        Column("pid"),
        Column("endpoint", left=True),
        Column("QPs", spare=3),
        Column("out", least=len("0.00 Gbit/s")),
        Column("in", least=len("0.00 Gbit/s"), spare=1),
        Column("EVs in use", spare=2),
    )
    for number, each in enumerate(pictures):
        in_use = sum(plane.evs_in_use for plane in each.planes)
        evs = sum(plane.evs for plane in each.planes)
        table.add_row(
            ">" if number == shown else "",
            str(each.pid),
            f"{each.name} {each.program}",
            str(each.qps_total),
            goodput_text(each.sent_gbps),
            goodput_text(each.received_gbps),
            f"{in_use}/{evs}",
            style="bold" if number == shown else "",
        )
    return table


def _planes(planes: Sequence[PlaneFigures]) -> FittedTable:
    table = FittedTable(
        Column("plane"),
        Column("port", left=True),
        Column("peers' ports", left=True),
        Column("EVs in use", spare=1),
        Column("packets/s", spare=2),
        Column("share", spare=3),
        Column("", left=True, spare=4),
        Column("loss", least=len("100.0%")),
    )
    whole = sum(plane.packets_per_s or 0 for plane in planes)
    for plane in planes:
        share = (plane.packets_per_s or 0) / whole if whole else None
        table.add_row(
            str(plane.plane),
            Text("?") if plane.up is None else _port(plane.up),
            _peers_ports(plane),
            Text(f"{plane.evs_in_use}/{plane.evs}", style="" if plane.evs_in_use == plane.evs else "yellow"),
            number_text(plane.packets_per_s, ",.0f"),
            number_text(share, ".0%"),
            _bar(share),
            number_text(plane.loss, ".1%"),
        )
    return table


def _port(up: bool) -> Text:
    return Text("up", "green") if up else Text("down", "bold red")


def _peers_ports(plane: PlaneFigures) -> Text:
    """The peers that reported their port as down."""
    if not plane.peers:
        return Text("-")
    if not plane.peers_down:
        return _port(True)
    named = ", ".join(plane.peers_down[:_NAMED_PEERS])
    more = len(plane.peers_down) - _NAMED_PEERS
    whose = (
        "" if len(plane.peers_down) == plane.peers == 1 else f": {named}" + (f" and {more} more" if more > 0 else "")
    )
    return _port(False).append(foreign(whose))


def _qps(qps: Sequence[QpFigures], total: int) -> FittedTable:
    table = FittedTable(
        Column(f"QP ({total})"),
        Column("peer", left=True),
        Column("state", left=True, spare=2),
        Column("out\nGbit/s"),
        Column("in\nGbit/s"),
        Column("sent\nagain", spare=1, least=len("100.0%")),
        Column("window", spare=4, least=len("1000 KiB")),
        Column("in\nflight", spare=5, least=len("1000 KiB")),
        Column("RTT\nms", spare=3, least=len("10.00")),
    )
    for qp in qps:
        table.add_row(
            f"{qp.qp_num:#x}",
            qp.peer,
            foreign(qp.state, "bold red" if qp.error else ""),
            number_text(qp.sent_gbps, ".2f"),
            number_text(qp.received_gbps, ".2f"),
            number_text(qp.loss, ".1%"),
            narrow_size_text(qp.cwnd_bytes),
            narrow_size_text(qp.inflight_bytes),
            number_text(None if qp.srtt_us is None else qp.srtt_us / 1e3, ".2f"),
        )
    return table


def _paths(paths: Sequence[PathFigures], view: View, rows: int) -> FittedTable:
    cursor = [Column("", left=True)] if view.keys else []
    table = FittedTable(
        *cursor,
        Column("peer", left=True, spare=2),
        Column("plane", spare=3),
        Column("spine", spare=4),
        Column("EV"),
        Column("state", left=True, least=len("ASSUMED_BAD")),
        Column("packets/s"),
        Column("share", spare=1),
        Column("", left=True, spare=7),
        Column("loss", least=len("100.0%")),
        Column("marked", spare=5),
        Column("lost", spare=6, least=6),
    )
    view.chosen = max(0, min(view.chosen, len(paths) - 1))
    view.top = max(view.chosen - rows + 1, min(view.top, view.chosen), 0)
    busiest = max((path.share or 0 for path in paths), default=0)
    for number, path in enumerate(paths[view.top : view.top + rows], view.top):
        here = view.keys and number == view.chosen
        table.add_row(
            *([">" if here else ""] if view.keys else []),
            path.peer,
            str(path.plane),
            "-" if path.spine is None else str(path.spine),
            f"{path.ev:#010x}",
            _state(path),
            number_text(path.packets_per_s, ",.0f"),
            number_text(path.share, ".0%"),
            _bar(path.share, busiest),
            number_text(path.loss, ".1%"),
            number_text(path.marks, ".1%"),
            str(path.lost),
            style="bold" if here else "",
        )
    return table


def _state(path: PathFigures) -> Text:
    """An EV that would be used but for a port says so."""
    if path.state in IN_USE and not path.ports_up:
        return Text("PORT DOWN", style="bold red")
    return foreign(path.state.upper(), _STATE_STYLE.get(path.state, ""))


def _bar(share: float | None, of: float = 1.0) -> Text:
    """Full where the share is `of`."""
    filled = round(_BAR * share / of) if share and of else 0
    return Text("#" * filled + " " * (_BAR - filled), style="cyan")
