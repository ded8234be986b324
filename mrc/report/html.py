# SPDX-License-Identifier: BSD-2-Clause
"""Pages of HTML that are one file, made from templates of Jinja, which escapes whatever is text.

A template lies beside the modules of its package and extends `mrc.report/page.html`: the shell, and the style that all
pages share. `mrc.report/parts.html` has what several pages show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """What `table` of parts.html shows: `left` columns are aligned left, the first `mono` of them in a fixed width.

    Of more than `most` rows the others are counted below it. A table without headings has none.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int
    mono: int = 0
    most: int | None = None


def page(package: str, template: str, *, script: str = "", data: Any = None, asks: bool = False, **values: Any) -> str:
    """Make the page of a template that lies in `package`, from `values`.

    `script` is the name of a script that lies there too. `data` is JSON for it, in the element with the id `data`.
    `asks`: the script asks the server it came from.
    """
    return (
        _environment()
        .get_template(f"{package}/{template}")
        .render(
            policy=policy(scripts=bool(script), asks=asks),
            script=_resource(package, script) if script else None,
            data=data,
            **values,
        )
    )


def policy(*, scripts: bool, asks: bool = False) -> str:
    """Write the policy of a page: what is not in the file may not be loaded or run."""
    allowed = ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:"]
    allowed += ["script-src 'unsafe-inline'"] if scripts else []
    return "; ".join(allowed + (["connect-src 'self'"] if asks else []))


def _resource(package: str, name: str) -> str:
    """A style or a script that lies beside a package's modules: a template says of it that it is safe."""
    return _read(package, name).strip()


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _cell(value: Cell) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


@cache
def _environment() -> Environment:
    """Templates are named `package/file`; a value that a template wants and nobody gave is an error."""
    made = Environment(
        autoescape=True,
        keep_trailing_newline=True,
        loader=FunctionLoader(lambda name: _read(*name.rsplit("/", 1))),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    made.filters["cell"] = _cell
    made.globals["resource"] = _resource
    return made
