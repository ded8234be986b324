# SPDX-License-Identifier: BSD-2-Clause
"""Hypothesis profiles: `default` is quick, `ci` (chosen by CI=true in the environment) looks further."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from draws import draws

# What commands print is as wide as where there is no terminal, whoever starts the tests.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# Numpy and torch compute with one thread, here and in programs that tests start: threads that wait for each other spin.
# Beside other tests they take several times as much of the processors. Both read it when they are first imported.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

pytest.register_assert_rewrite("tutorials")  # a page that prints something else shows where


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Where there is no plugin of Hypothesis nothing is drawn, and it need not be imported."""
    if not config.pluginmanager.has_plugin("hypothesispytest"):
        return
    from hypothesis import HealthCheck, Phase, settings

    # Shrinking a whole transfer takes minutes and its seed replays it anyway: only on a developer's wish (`shrink`).
    quick = (Phase.explicit, Phase.reuse, Phase.generate)
    settings.register_profile(
        "default", max_examples=draws(15), deadline=None, phases=quick, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("ci", settings.get_profile("default"), max_examples=draws(25), print_blob=True)
    settings.register_profile("shrink", settings.get_profile("default"), phases=tuple(Phase))
    settings.load_profile("ci" if os.environ.get("CI", "").lower() == "true" else "default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives as long as the process. To look through it for garbage, again and again while it grows,
    was two fifths of what it costs a process to find its tests. Looks at what tests make are seldom: with Python's 700
    new objects between two of them they take up to a tenth of what interpreted tests cost."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, *gc.get_threshold()[1:])
        gc.enable()


# Folders whose tests start programs, and wait for them. Those whose files take longest come first. Files called live in
# other folders wait as well.
_WAITING = ("torch_backend", "capi", "live", "cli", "collectives", "drill", "lab", "site", "release")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Beside other workers: files that wait are spread among files that compute, and are over earlier: what computes
    keeps the processors at work to the end."""
    if not hasattr(config, "workerinput"):
        return
    kinds = {item.path: "live" if "_live" in item.path.name else item.path.parent.name for item in items}
    waiting = sorted(
        (path for path, kind in kinds.items() if kind in _WAITING), key=lambda path: _WAITING.index(kinds[path])
    )
    computing = [path for path, kind in kinds.items() if kind not in _WAITING]
    place = {path: 0.7 * at / len(waiting) for at, path in enumerate(waiting)}
    place |= {path: at / len(computing) for at, path in enumerate(computing)}
    items.sort(key=lambda item: place[item.path])


# What the interpreter and pytest may open for themselves while one file's tests run.
_SPARE_DESCRIPTORS = 8


@pytest.fixture(autouse=True, scope="module")
def no_descriptor_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of tests leaves no descriptors open: some thousand of them break whatever runs after it."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    if any(gc.get_count()[1:]) or len(os.listdir("/proc/self/fd")) > before + _SPARE_DESCRIPTORS:
        gc.collect()  # what is open only until the next look for garbage
        # What a file keeps, as results that several of its tests go by, is looked through this once. Tests that look
        # for garbage took up to a second each time, and so did the end of the process.
        gc.freeze()
    after = len(os.listdir("/proc/self/fd"))
    assert after <= before + _SPARE_DESCRIPTORS, f"{request.node.nodeid} left {after - before} descriptors open"


# Started by nohup, or in the background of a script, tests would ignore SIGHUP or SIGINT, and so would the programs
# that they start.
_AT_FIRST = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
}


def _signals_as_at_first() -> None:
    for number, handler in _AT_FIRST.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="module")
def signals_of_a_module() -> None:
    """As `signals_as_before`, for programs that fixtures of a file start."""
    _signals_as_at_first()


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """A command run in this process, by a test or by a fixture of its file, ends by ignoring signals: programs that are
    started later would ignore them too."""
    _signals_as_at_first()
    yield
    _signals_as_at_first()
