# SPDX-License-Identifier: BSD-2-Clause
"""The tables of `mrc lab status`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mrc.fabric.units import duration_text
from mrc.records import record
from mrc.report.units import decimal_size_text, rate_text, share_text

if TYPE_CHECKING:
    from rich.table import Table

    from mrc.lab.status import DirectionStatus, LabStatus, LinkStatus

# Lines two tables take beside their rows: heads and frames, the line that says what is left out, the prompt.
_OTHER_LINES = 12

Way = tuple["LinkStatus", str, "DirectionStatus"]


@record(frozen=True, slots=True)
class _Column:
    """`when`: the column is there if this holds for any direction shown; without it, always."""

    heading: str
    cell: Callable[[DirectionStatus], str]
    when: Callable[[DirectionStatus], bool] = lambda _: True


def _count(heading: str, field: str, setting: str) -> _Column:
    """How many packets a setting did something to; the column is there where any direction has the setting."""
    return _Column(heading, lambda way: str(getattr(way, field) or ""), lambda way: bool(getattr(way, setting)))


def _queued(heading: str, text: Callable[[DirectionStatus], str]) -> _Column:
    return _Column(heading, lambda way: text(way) if way.rate_bps else "", lambda way: bool(way.rate_bps))


def _most(way: DirectionStatus) -> str:
    return "?" if way.queue_high_water_bytes is None else decimal_size_text(way.queue_high_water_bytes)


_ARRIVING = (
    _Column("packets", lambda way: str(way.packets)),
    _Column("bytes", lambda way: str(way.bytes)),
    _Column("dropped", lambda way: str(way.dropped_packets) if way.loss_percent else ""),
    _Column("loss", lambda way: share_text(way.impairment.loss) if way.loss_percent else ""),
)
_SENDING = (
    _queued("rate", lambda way: rate_text(way.rate_bps)),
    _queued("waits", lambda way: decimal_size_text(way.queue_waiting_bytes)),
    _queued("most", _most),
    _queued("limit", lambda way: decimal_size_text(way.queue_limit_bytes)),
    _count("full", "queue_dropped_packets", "rate_bps"),
    _count("marked", "marked_packets", "ecn_at_bytes"),
    _count("trimmed", "trimmed_packets", "trim_at_bytes"),
    _count("doubled", "duplicated_packets", "duplicate_percent"),
    _count("corrupted", "corrupted_packets", "corrupt_percent"),
    _Column("delay", lambda way: duration_text(way.delay_ns) if way.delay_ns else "", lambda way: bool(way.delay_ns)),
    _Column(
        "jitter", lambda way: duration_text(way.jitter_ns) if way.jitter_ns else "", lambda way: bool(way.jitter_ns)
    ),
    _Column(
        "reordered",
        lambda way: share_text(way.impairment.reorder) if way.reorder_percent else "",
        lambda way: bool(way.reorder_percent),
    ),
    _Column(
        "no room",
        lambda way: str(way.delay_dropped_packets or ""),
        lambda way: bool(way.delay_dropped_packets),
    ),
    _Column("MTU", lambda way: str(way.mtu_bytes or ""), lambda way: bool(way.mtu_bytes)),
)


def hosts_table(found: LabStatus) -> Table:
    from rich.table import Table

    title = f"lab {found.name}, {found.mode} mode, fabric: {found.fabric}, MTU {found.mtu_bytes} bytes"
    table = Table("host", "addresses, one a plane", "outside the fabric", title=title)
    for host in found.hosts:
        table.add_row(host.name, "\n".join(host.addresses), host.ipv4 or "-")
    return table


def link_tables(
    found: LabStatus, before: LabStatus | None = None, seconds: float = 1.0, rows: int | None = None
) -> list[Table]:
    """What arrives in each direction of each link, and what happens to it at the sending end where that is impaired.

    With `before`, the status so many seconds ago, also how fast packets arrive. Where `rows` lines are too few for all,
    directions that are up, unimpaired and idle are left out.
    """
    ways = [(link, node, way) for link in found.links for node, way in link.toward.items()]
    impaired = [each for each in ways if not replace(each[2].impairment, loss=0).is_off]
    rates = _rates(ways, before, seconds) if before is not None else None
    shown = ways
    if rows is not None and len(ways) + len(impaired) > rows - _OTHER_LINES:
        busy = {key for key, rate in (rates or {}).items() if rate}
        shown = [
            (link, node, way)
            for link, node, way in ways
            if link.state != "up" or (link.name, node) in busy or not way.impairment.is_off
        ]
    arriving = _arriving_table(shown, rates)
    if shown != ways:
        arriving.caption = f"{len(ways) - len(shown)} idle directions are not shown"
    return [arriving, _sending_table(impaired)] if impaired else [arriving]


def _rates(ways: Sequence[Way], before: LabStatus, seconds: float) -> dict[tuple[str, str], float]:
    """Bits a second, by link and node."""
    earlier = {(link.name, node): way.bytes for link in before.links for node, way in link.toward.items()}
    return {
        (link.name, node): max(way.bytes - earlier.get((link.name, node), way.bytes), 0) * 8 / seconds
        for link, node, way in ways
    }


def _arriving_table(ways: Sequence[Way], rates: Mapping[tuple[str, str], float] | None) -> Table:
    from rich.table import Table

    table = Table("link", "state", "toward")
    for heading in (["Gbit/s"] if rates is not None else []) + [column.heading for column in _ARRIVING]:
        table.add_column(heading, justify="right")
    last = ""
    for link, node, way in ways:
        colour = "green" if link.state == "up" else "red"
        name, state = (link.name, f"[{colour}]{link.state}[/]") if link.name != last else ("", "")
        last = link.name
        rate = [f"{rates[link.name, node] / 1e9:.3f}"] if rates is not None else []
        table.add_row(name, state, node, *rate, *(column.cell(way) for column in _ARRIVING))
    return table


def _sending_table(ways: Sequence[Way]) -> Table:
    from rich.table import Table

    columns = [column for column in _SENDING if any(column.when(way) for _, _, way in ways)]
    table = Table(title="impaired at the sending end", title_justify="left")
    table.add_column("link", no_wrap=True)
    table.add_column("toward")
    for column in columns:
        table.add_column(column.heading, justify="right")
    last = ""
    for link, node, way in ways:
        table.add_row(link.name if link.name != last else "", node, *(column.cell(way) for column in columns))
        last = link.name
    return table
