# SPDX-License-Identifier: BSD-2-Clause
"""The pytest plugin of tools/mutate: it runs all tests once, then those of each mutant in a process of its own."""

from __future__ import annotations

import gc
import hashlib
import json
import mmap
import os
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
from hypothesis import settings
from mutation.mutants import Module, Mutant
from mutation.results import EQUIVALENT, KILLED, LEFT, NO_TEST, SURVIVED, TIMEOUT, Results

EXAMPLES = 10  # of each hypothesis test that names no number of its own
# A test that takes so many times as long as without a mutant, and some seconds, is in an endless loop.
LONGER, SPARE_S, STUCK_S = 5, 2.0, 300
MOST_MEMORY = 6 << 30
# Tests that killed other mutants of the function come first, then those that killed most of the module.
KILLERS, MODULE_KILLERS = 5, 60


@dataclass
class Run:
    """A process that runs the tests of a mutant. It writes the number of each test it begins to `at`."""

    module: str
    mutant: Mutant
    tests: list[str]
    at: mmap.mmap


class Session:
    """`longest`: tests that take more seconds are left out. `most`: no more tests are run for a mutant. `again`:
    survivors are run again, too."""

    def __init__(
        self,
        modules: list[Module],
        results: Results,
        baseline: Path,
        *,
        children: int,
        longest: float | None,
        most: int | None,
        again: bool,
    ) -> None:
        self._modules = modules
        self._results = results
        self._baseline = baseline
        self._children = children
        self._longest = float("inf") if longest is None else longest
        self._most = most
        self._again = again
        self._items: dict[str, Any] = {}
        self._failed = False
        # Seconds by test, the tests by module and line, and what killed mutants of a function last.
        self._durations: dict[str, float] = {}
        self._tests: dict[tuple[str, int], set[str]] = {}
        self._killers: dict[str, list[str]] = {}
        self._module_killers: dict[str, Counter[str]] = {}
        self._runs: dict[int, Run] = {}
        # What fails without a mutant.
        self.broken: list[str] = []

    # ------------------------------------------------------------------ what pytest calls

    def pytest_sessionstart(self) -> None:
        profile = settings.get_profile("default")
        settings.register_profile("mutation", profile, max_examples=EXAMPLES, derandomize=True, database=None)
        settings.load_profile("mutation")

    def pytest_internalerror(self, excrepr: Any) -> None:
        print(excrepr, file=sys.stderr)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._failed |= report.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed:
            self.broken = ["the tests cannot be collected"]
            return True
        self._items = {item.nodeid: item for item in session.items}
        self._run_once(session.items)
        if not self.broken:
            gc.collect()
            gc.freeze()
            self._run_mutants()
        return True

    # ------------------------------------------------------------------ the tests without a mutant

    def _run_once(self, items: list[Any]) -> None:
        """See which lines each test runs, and for how long. That is kept while its file and the code stay the same."""
        files = self._kept(items)
        new = [item for item in items if item.nodeid not in files[_file(item)]["tests"]]
        watched = {str(module.path.resolve()): str(module.path) for module in self._modules}
        measure = coverage.Coverage(data_file=None, include=list(watched), config_file=False)
        for at, (item, following) in enumerate(zip(new, [*new[1:], None], strict=False)):
            self._failed = False
            measure.start()
            measure.switch_context(item.nodeid)
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            taken = round(time.process_time() - began, 4)
            measure.stop()
            files[_file(item)]["tests"][item.nodeid] = {"seconds": taken, "lines": {}}
            if self._failed:
                self.broken.append(item.nodeid)
            if not at % 100:
                print(f"{at} of {len(new)} tests without a mutant", file=sys.stderr)
        data = measure.get_data()
        for path in data.measured_files() if new else ():
            for line, tests in data.contexts_by_lineno(path).items():
                for test in filter(None, tests):
                    found = files[_file(self._items[test])]["tests"][test]["lines"]
                    found.setdefault(watched[path], []).append(line)
        if not self.broken:
            self._baseline.write_text(json.dumps({"code": self._code(), "files": files}))
        self._remember(files)

    def _kept(self, items: list[Any]) -> dict[str, Any]:
        """What is known of the tests of each file."""
        kept = json.loads(self._baseline.read_text()) if self._baseline.exists() else {}
        known = kept["files"] if kept.get("code") == self._code() else {}
        for path in {_file(item) for item in items}:
            text = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            if known.get(path, {}).get("text") != text:
                known[path] = {"text": text, "tests": {}}
        return known

    def _code(self) -> str:
        sources = [path.read_bytes() for path in sorted(Path("mrc").rglob("*.py"))]
        watched = repr([module.name for module in self._modules])
        return hashlib.sha256(b"".join(sources) + watched.encode()).hexdigest()

    def _remember(self, files: dict[str, Any]) -> None:
        for file in files.values():
            for test, found in file["tests"].items():
                if test in self._items and found["seconds"] <= self._longest:
                    self._durations[test] = found["seconds"]
                    for module, lines in found["lines"].items():
                        for line in lines:
                            self._tests.setdefault((module, line), set()).add(test)

    # ------------------------------------------------------------------ the mutants

    def _run_mutants(self) -> None:
        known = (KILLED, TIMEOUT, EQUIVALENT) if self._again else (KILLED, TIMEOUT, EQUIVALENT, *LEFT)
        wanted = [
            (module, mutant)
            for module in self._modules
            for mutant in module.mutants
            if self._results.end(mutant.name) not in known
        ]
        began = time.monotonic()
        for at, (module, mutant) in enumerate(wanted):
            tests: set[str] = set().union(*(self._tests.get((str(module.path), line), ()) for line in mutant.lines))
            if not tests:
                self._results.ends[mutant.name] = NO_TEST
                continue
            if len(self._runs) >= self._children:
                self._wait()
            self._start(module, mutant, tests)
            if not at % 20:
                self._results.save()
                left = sum(self._results.ends.get(each.name) in LEFT for _, each in wanted[:at])
                taken = f"{time.monotonic() - began:.0f} s"
                print(f"{at} of {len(wanted)} mutants, {left} left, {taken}, {module.path}", file=sys.stderr)
        while self._runs:
            self._wait()
        self._results.save()

    def _start(self, module: Module, mutant: Mutant, tests: set[str]) -> None:
        run = Run(module.name, mutant, self._in_order(module, mutant, tests), mmap.mmap(-1, 8))
        process = os.fork()
        if process:
            self._runs[process] = run
            return
        survived = False
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            module.put_in_place(mutant)
            survived = self._passes(run)
        finally:
            os._exit(0 if survived else 1)

    def _in_order(self, module: Module, mutant: Mutant, tests: set[str]) -> list[str]:
        often = [test for test, _ in self._module_killers.get(module.name, Counter()).most_common(MODULE_KILLERS)]
        before = [*self._killers.get(mutant.function, ()), *often]
        first = [test for test in dict.fromkeys(before) if test in tests]
        rest = sorted(tests.difference(first), key=lambda test: (self._durations[test], test))
        return [*first, *rest][: self._most]

    def _passes(self, run: Run) -> bool:
        self._failed = False
        for at, (test, following) in enumerate(zip(run.tests, [*run.tests[1:], None], strict=True)):
            run.at[:] = at.to_bytes(8, "little")
            allowed = LONGER * self._durations[test] + SPARE_S
            signal.setitimer(signal.ITIMER_PROF, allowed)
            signal.alarm(STUCK_S + int(allowed))
            item = self._items[test]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following and self._items[following])
            if self._failed:
                return False
        return True

    def _wait(self) -> None:
        """Wait until one of the processes has ended."""
        process, status = os.wait()
        run = self._runs.pop(process, None)
        if run is None:
            return
        end = TIMEOUT if os.WIFSIGNALED(status) else KILLED if os.WEXITSTATUS(status) else SURVIVED
        self._results.ends[run.mutant.name] = end
        if end != SURVIVED:
            killers = self._killers.setdefault(run.mutant.function, [])
            last = run.tests[int.from_bytes(run.at[:], "little")]
            killers[:] = [last, *(test for test in killers if test != last)][:KILLERS]
            self._module_killers.setdefault(run.module, Counter())[last] += 1
        run.at.close()


def _file(item: Any) -> str:
    """The file a test lies in, from the root of the tree on."""
    return str(item.nodeid).partition("::")[0]
