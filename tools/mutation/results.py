# SPDX-License-Identifier: BSD-2-Clause
"""How mutants ended, kept in a file, and the table of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KILLED, SURVIVED, TIMEOUT, NO_TEST, EQUIVALENT = "killed", "survived", "timeout", "no test", "equivalent"
NOT_RUN = "not run"
LEFT = (SURVIVED, NO_TEST)


# A line with the reason, then the names of the mutants it is true of.
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def equivalent() -> set[str]:
    """The mutants that no test can notice."""
    lines = _EQUIVALENT.read_text().splitlines()
    return {line.split()[0] for line in lines if line and not line.startswith("#")}


def place(name: str, root: Path) -> tuple[Path, str] | None:
    """The file below `root` that this mutant is of, and its function; None where there is no such file."""
    parts = name.split(".")[:-2]
    for count in range(len(parts), 0, -1):
        path = root.joinpath(*parts[: count - 1], f"{parts[count - 1]}.py")
        if path.is_file():
            return path, ".".join(parts[count:])
    return None


def gone(names: set[str], modules: list[Any], root: Path) -> Iterator[str]:
    """Those of `names` that no mutant has: of a file that is not there, or of one of `modules`, which lacks them."""
    made = {(root / module.path).resolve(): {mutant.name for mutant in module.mutants} for module in modules}
    for name in sorted(names):
        found = place(name, root)
        if found is None or name not in made.get(found[0].resolve(), {name}):
            yield name


class Results:
    """The ends of mutants by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ends: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        self._equivalent = equivalent()

    def end(self, name: str) -> str:
        """How this mutant ended. One that is equivalent does so unless a test has killed it after all."""
        end = self.ends.get(name, NOT_RUN)
        return EQUIVALENT if name in self._equivalent and end not in (KILLED, TIMEOUT) else end

    def save(self) -> None:
        self._path.write_text(json.dumps(self.ends, indent=0))


def survivors(modules: list[Any], results: Results) -> Iterator[str]:
    """The name of each mutant that is left, and what it changes."""
    for module in modules:
        for mutant in module.mutants:
            if results.end(mutant.name) in LEFT:
                yield f"{mutant.name} ({results.ends[mutant.name]}, line {mutant.lines[0]})"
                yield from (f"    {line}" for line in mutant.change)


def table(modules: list[Any], results: Results) -> Iterator[str]:
    columns = (
        ("mutants", 8),
        ("killed", 8),
        ("timeout", 8),
        ("equivalent", 11),
        ("survived", 9),
        ("no test", 8),
        ("share", 8),
        ("not run", 8),
    )
    yield f"{'module':44}" + "".join(f"{name:>{width}}" for name, width in columns)
    whole: Counter[str] = Counter()
    for module in modules:
        ends = Counter(results.end(mutant.name) for mutant in module.mutants)
        whole += ends
        if ends:
            yield _row(str(module.path), ends)
    yield _row("all", whole)


def _row(name: str, ends: Counter[str]) -> str:
    run = ends.total() - ends[NOT_RUN] - ends[EQUIVALENT]
    share = f"{sum(ends[end] for end in LEFT) / run:.1%}" if run else "-"
    return (
        f"{name:44}{ends.total():8}{ends[KILLED]:8}{ends[TIMEOUT]:8}{ends[EQUIVALENT]:11}{ends[SURVIVED]:9}"
        f"{ends[NO_TEST]:8}{share:>8}{ends['not run']:8}"
    )
