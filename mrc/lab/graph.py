# SPDX-License-Identifier: BSD-2-Clause
"""A fabric drawn: as SVG with a layout of its own, as DOT for Graphviz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from mrc.fabric import Link, Shape
from mrc.fabric.names import parse_switch
from mrc.records import record

_NODE_WIDTH, _NODE_HEIGHT = 64, 26
_STEP = _NODE_WIDTH + 24
_PLANE_GAP = 40
_MARGIN = 30
_ROW = 120
# Told apart without red and green, and by how they are drawn.
_LOOKS = {"up": ("#5b6770", ""), "down": ("#cc3311", "7 5"), "impaired": ("#ee7733", "2 3")}
_FILLS = {"host": "#ddeeff", "leaf": "#eef3e6", "spine": "#f6ecd9"}
_LEGEND = {"down": "cut", "impaired": "impaired"}


@record(frozen=True, slots=True)
class LinkLook:
    """How a link is drawn: "up", "down" or "impaired", and what is said about it."""

    state: str = "up"
    text: str = ""


_UP = LinkLook()


def svg(shape: Shape, title: str, looks: Mapping[str, LinkLook]) -> str:
    """Draw a fabric: hosts below, leaves above them, spines on top, planes side by side. `looks`: by a link's name."""
    places = _places(shape)
    width = max(x for x, _ in places.values()) + _NODE_WIDTH / 2 + _MARGIN
    height = max(y for _, y in places.values()) + _NODE_HEIGHT / 2 + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="20" fill="#222222">{escape(title)}</text>',
    ]
    parts += [_line(link, places, looks.get(link.name, _UP)) for link in shape.links]
    parts += [_box(shape, node, places[node]) for node in shape.nodes]
    shown = dict.fromkeys(look.state for look in looks.values() if look.state in _LEGEND)
    parts += [_legend(state, width, at) for at, state in enumerate(shown)]
    return "\n".join([*parts, "</svg>", ""])


def dot(shape: Shape, title: str, looks: Mapping[str, LinkLook]) -> str:
    """Write a fabric for Graphviz: an undirected graph, each plane a cluster."""
    lines = [
        f"graph {_quoted(title)} {{",
        "  rankdir=BT;",
        f"  label={_quoted(title)};",
        "  node [shape=box, style=filled];",
    ]
    lines += [f"  {host} [fillcolor={_quoted(_FILLS['host'])}];" for host in shape.hosts]
    for plane in range(shape.planes):
        lines += [f"  subgraph cluster_plane{plane} {{", f"    label={_quoted(f'plane {plane}')};"]
        for switch in shape.switches:
            if parse_switch(switch)[0] == plane:
                lines.append(f"    {switch} [fillcolor={_quoted(_FILLS[_kind(shape, switch)])}];")
        lines.append("  }")
    for link in shape.links:
        look = looks.get(link.name, _UP)
        style = "solid" if look.state == "up" else "dashed" if look.state == "down" else "dotted"
        text = f", tooltip={_quoted(look.text)}" if look.text else ""
        lines.append(f"  {link.lower} -- {link.upper} [color={_quoted(_LOOKS[look.state][0])}, style={style}{text}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _kind(shape: Shape, node: str) -> str:
    return "host" if node in shape.hosts else "spine" if node in shape.spine_switches else "leaf"


def _places(shape: Shape) -> dict[str, tuple[float, float]]:
    """The middle of each node's box."""
    rows = [row for row in (shape.spine_switches, shape.leaf_switches) if row]
    plane_width = max(len(row) // shape.planes for row in rows) * _STEP
    width = max(shape.planes * (plane_width + _PLANE_GAP) - _PLANE_GAP, shape.host_count * _STEP)
    plane_step = (width + _PLANE_GAP) / shape.planes
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        y = _MARGIN + 30 + number * _ROW
        for plane in range(shape.planes):
            left = _MARGIN + plane * plane_step
            places |= _spread(
                [node for node in row if parse_switch(node)[0] == plane], left, plane_step - _PLANE_GAP, y
            )
    return places | _spread(shape.hosts, _MARGIN, width, _MARGIN + 30 + len(rows) * _ROW)


def _spread(nodes: Sequence[str], left: float, width: float, y: float) -> dict[str, tuple[float, float]]:
    return {node: (left + width * (at + 0.5) / len(nodes), y) for at, node in enumerate(nodes)}


def _line(link: Link, places: Mapping[str, tuple[float, float]], look: LinkLook) -> str:
    (x1, y1), (x2, y2) = places[link.lower], places[link.upper]
    colour, dashes = _LOOKS[look.state]
    # Two in one row are joined over the heads of those between them.
    bend = abs(x1 - x2) / 4 if y1 == y2 else 0
    path = f"M{x1:.1f},{y1:.1f} Q{(x1 + x2) / 2:.1f},{(y1 + y2) / 2 - 2 * bend:.1f} {x2:.1f},{y2:.1f}"
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    said = f"{link.name}: {look.text}" if look.text else link.name
    thick = 1.2 if look.state == "up" else 2.4
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{thick}"{dashed} data-link="{link.name}" '
        f'data-state="{look.state}"><title>{escape(said)}</title></path>'
    )


def _box(shape: Shape, node: str, place: tuple[float, float]) -> str:
    x, y = place
    fill = _FILLS[_kind(shape, node)]
    return (
        f'<g data-node="{node}"><rect x="{x - _NODE_WIDTH / 2:.1f}" y="{y - _NODE_HEIGHT / 2:.1f}" '
        f'width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="4" fill="{fill}" stroke="#5b6770"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="#222222">{node}</text></g>'
    )


def _legend(state: str, width: float, number: int) -> str:
    colour, dashes = _LOOKS[state]
    y = 16 + number * 16
    return (
        f'<path d="M{width - 130:.0f},{y} h34" stroke="{colour}" stroke-width="2.4" stroke-dasharray="{dashes}"/>'
        f'<text x="{width - 88:.0f}" y="{y + 4}" fill="#222222">{_LEGEND[state]}</text>'
    )
