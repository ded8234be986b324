"""Pages of docs/ that run as they stand: blocks of Python, each followed by what it prints."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of code, the line it starts on, and what is shown below it; `live` needs a lab."""

    page: Path
    line: int
    code: str
    shown: str
    live: bool

    def run(self, names: dict[str, Any]) -> None:
        """Run it with `names` as its globals; it has to print what is shown."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (self.line - 1) + self.code, str(self.page), "exec"), names)
        assert printed.getvalue() == self.shown, f"{self.page.name}, line {self.line}"


def steps(page: Path) -> list[Step]:
    """The blocks of a page. Besides code and output there may be blocks of a shell (`console`), which are not run."""
    text = page.read_text()
    blocks = [(text[: match.start()].count("\n") + 2, match[1], match[2]) for match in _FENCE.finditer(text)]
    found = []
    for (line, kind, body), after in zip(blocks, [*blocks[1:], (0, "", "")], strict=True):
        if kind.startswith("python"):
            found.append(Step(page, line, body, after[2] if after[1] == "text" else "", kind == "python live"))
        else:
            assert kind in ("text", "console"), f"line {line}: a block of kind {kind!r} is neither code nor output"
    return found
