"""The screen of `mrc top`: the picture of an endpoint as tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mrc.top.figures import PathFigures, Picture, PlaneFigures, QpFigures

KEYS = "up/down choose an EV   d deny it   a allow it   tab next endpoint   p pause   q quit"
_STATE_STYLE = {"good": "green", "skip": "yellow", "assumed_bad": "red", "denied": "magenta"}
_BAR = 12
# Lines that are no rows: the title, three tables with a gap, a heading and a rule each, the message, the keys.
_FRAME = 12
_GAP = Text("")
_LEAST_ROWS, _MOST_QPS, _MOST_EVENTS = 3, 6, 6


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
    """All endpoints in a line each if there are several, and the one at `shown` in whole, within `height` lines."""
    picture = pictures[shown]
    parts: list[RenderableType] = [_title(picture, view)]
    room = height - _FRAME
    if len(pictures) > 1:
        parts += [_GAP, _endpoints(pictures, shown)]
        room -= len(pictures) + 3
    parts += [_GAP, _planes(picture.planes)]
    room -= len(picture.planes)
    qps = picture.qps[: max(_LEAST_ROWS, min(_MOST_QPS, room // 4))]
    parts += [_GAP, _qps(qps, picture.qps_total)]
    room -= len(qps)
    events = view.events[-max(0, min(_MOST_EVENTS, room // 4)) :] if room >= 4 * _LEAST_ROWS else []
    parts += [_GAP, _paths(picture.paths, view, max(_LEAST_ROWS, room - len(events)))]
    parts += [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in events]
    if view.message:
        parts.append(Text(view.message, style="bold", no_wrap=True, overflow="ellipsis"))
    if view.keys:
        parts.append(Text(KEYS, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def describe_path(path: PathFigures) -> str:
    """`EV 0x01000002 (plane 1, spine 2) towards h1`."""
    way = f"plane {path.plane}" if path.spine is None else f"plane {path.plane}, spine {path.spine}"
    return f"EV {path.ev:#010x} ({way}) towards {path.peer}"


def _title(picture: Picture, view: View) -> Text:
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(f"{picture.name}  {picture.program}", style="bold")
    title.append(f"  pid {picture.pid}  ")
    title.append(f"out {_gbps(picture.sent_gbps)}  in {_gbps(picture.received_gbps)}", style="bold cyan")
    title.append(f"  sent again {picture.retransmitted}")
    if view.paused:
        title.append("  PAUSED", style="bold yellow")
    return title


def _table(*headings: str, left: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for heading in headings:
        # Where the screen is narrow bars give way first, numbers and states last.
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=heading != "share")
    return table


def _endpoints(pictures: Sequence[Picture], shown: int) -> Table:
    table = _table("", "pid", "endpoint", "QPs", "out", "in", "EVs in use", left=("", "endpoint"))
    for number, each in enumerate(pictures):
        in_use = sum(plane.evs_in_use for plane in each.planes)
        evs = sum(plane.evs for plane in each.planes)
        table.add_row(
            ">" if number == shown else "",
            str(each.pid),
            f"{each.name} {each.program}",
            str(each.qps_total),
            _gbps(each.sent_gbps),
            _gbps(each.received_gbps),
            f"{in_use}/{evs}",
            style="bold" if number == shown else "",
        )
    return table


def _planes(planes: Sequence[PlaneFigures]) -> Table:
    table = _table("plane", "port", "EVs in use", "packets/s", "share", "loss", left=("share", "port"))
    whole = sum(plane.packets_per_s or 0 for plane in planes)
    for plane in planes:
        port = Text("?") if plane.up is None else Text("up", "green") if plane.up else Text("down", "bold red")
        share = (plane.packets_per_s or 0) / whole if whole else None
        table.add_row(
            str(plane.plane),
            port,
            Text(f"{plane.evs_in_use}/{plane.evs}", style="" if plane.evs_in_use == plane.evs else "yellow"),
            _count(plane.packets_per_s),
            _bar(share),
            _percent(plane.loss),
        )
    return table


def _qps(qps: Sequence[QpFigures], total: int) -> Table:
    table = _table(
        f"QP ({total})",
        "peer",
        "state",
        "out",
        "in",
        "sent again",
        "window",
        "in flight",
        "RTT",
        left=("peer", "state"),
    )
    for qp in qps:
        state = Text(qp.state if not qp.error else f"{qp.state}: {qp.error}", style="bold red" if qp.error else "")
        table.add_row(
            f"{qp.qp_num:#x}",
            qp.peer,
            state,
            _gbps(qp.sent_gbps),
            _gbps(qp.received_gbps),
            _percent(qp.loss),
            _bytes(qp.cwnd_bytes),
            _bytes(qp.inflight_bytes),
            "-" if qp.srtt_us is None else f"{qp.srtt_us / 1e3:.2f} ms",
        )
    return table


def _paths(paths: Sequence[PathFigures], view: View, rows: int) -> Table:
    table = _table(
        "", "peer", "plane", "spine", "EV", "state", "packets/s", "share", "loss", "marked", "lost",
        left=("", "peer", "state", "share"),
    )  # fmt: skip
    view.chosen = max(0, min(view.chosen, len(paths) - 1))
    view.top = max(view.chosen - rows + 1, min(view.top, view.chosen), 0)
    busiest = max((path.share or 0 for path in paths), default=0)
    for number, path in enumerate(paths[view.top : view.top + rows], view.top):
        here = view.keys and number == view.chosen
        table.add_row(
            ">" if here else "",
            path.peer,
            str(path.plane),
            "-" if path.spine is None else str(path.spine),
            f"{path.ev:#010x}",
            Text(path.state.upper(), style=_STATE_STYLE.get(path.state, "")),
            _count(path.packets_per_s),
            _bar(path.share, busiest),
            _percent(path.loss),
            _percent(path.marks),
            str(path.lost),
            style="bold" if here else "",
        )
    return table


def _gbps(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} Gbit/s"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _bytes(value: int | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1024:.0f} KiB" if value < 1 << 20 else f"{value / (1 << 20):.1f} MiB"


def _bar(share: float | None, of: float = 1.0) -> Text:
    """The share in percent and as a bar, full where it is `of`."""
    if share is None:
        return Text("-")
    filled = round(_BAR * share / of) if of else 0
    shown = Text(f"{share:4.0%} ", no_wrap=True, overflow="crop")
    return shown.append("#" * filled + " " * (_BAR - filled), style="cyan")
