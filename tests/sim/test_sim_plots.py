# SPDX-License-Identifier: BSD-2-Clause
"""What is on the plots of mrc.sim: words and units on axes, ticks that can be read, lines from 0."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from mrc.sim import plots
from mrc.sim.words import figure_words, key_words, with_key


def drawn(monkeypatch: pytest.MonkeyPatch, times_us: list[list[float]]) -> Any:
    """The axes of completion times as they are drawn, one line for each list."""
    figures: list[Figure] = []

    def keep(title: str, draw: Any, form: str) -> bytes:
        figures.append(Figure())
        draw(figures[0])
        figures[0].canvas.draw()
        return b""

    def flows(path: Any, columns: Any) -> dict[str, Any]:
        fct = np.array(times_us[int(path.parent.name)]) * 1e3
        return {"job": np.array(["all"] * len(fct)), "fct": fct}

    monkeypatch.setattr(plots, "picture", keep)
    monkeypatch.setattr(plots.parquet, "read", flows)
    monkeypatch.setattr(plots, "_named", lambda directories: {str(each): each for each in directories})
    plots.completion_times([plots.Path(str(number)) for number in range(len(times_us))])
    return figures[0].axes[0]


def ticks(axes: Any) -> list[str]:
    low, high = axes.get_xlim()
    return [label.get_text() for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]


@pytest.mark.parametrize(
    "times", [[20.0, 30.0, 170.0], [9.0], [100.0 + number / 100 for number in range(5000)]], ids=len
)
def test_a_distribution_starts_at_0_and_ends_at_100(monkeypatch: pytest.MonkeyPatch, times: list[float]) -> None:
    (line,) = drawn(monkeypatch, [times]).get_lines()
    x, y = line.get_data()
    assert (x[0], y[0]) == (min(times), 0)
    assert (x[-1], y[-1]) == (max(times), 100)
    assert (np.diff(y) >= 0).all()


def test_writes_of_which_none_completed_are_a_line_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    some, none = drawn(monkeypatch, [[1.0, 2.0], []]).get_lines()
    assert len(some.get_xdata()) == 3
    assert len(none.get_xdata()) == 0


@pytest.mark.parametrize(
    ("least", "most", "shown"),
    [
        (13.0, 175.0, ["15", "20", "30", "50", "70", "100", "150"]),
        (2.0, 950.0, ["2", "5", "10", "20", "50", "100", "200", "500", "1,000"]),
        (1.0, 200_000.0, ["1", "10", "100", "1,000", "10,000", "100,000"]),
    ],
)
def test_a_logarithmic_axis_has_numbers_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch, least: float, most: float, shown: list[str]
) -> None:
    axes = drawn(monkeypatch, [[least, most]])
    assert axes.get_xscale() == "log"
    assert ticks(axes) == shown


def test_values_close_to_each_other_have_an_even_axis_with_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(monkeypatch, [[84.0, 87.0]])
    assert axes.get_xscale() == "linear"
    assert len(ticks(axes)) >= 3


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("policies.evs", "EVs of each QP"),
        ("links.fabric.loss", "loss of links between switches"),
        ("links.hosts.trim_at", "trimming threshold of links of hosts"),
        ("workloads.0.bytes", "size of a write"),
        ("workloads.0.senders", "senders"),
        ("policies.controller_settings.window_packets", "window, packets"),
        ("policies.loss_detection.path_timer_min_ns", "path timer min, ns"),
        ("case", "case"),
    ],
)
def test_an_axis_of_a_key_is_words(key: str, words: str) -> None:
    assert key_words(key) == words


def test_every_figure_has_words_and_those_with_units_name_them() -> None:
    from mrc.sim.cluster import run
    from mrc.sim.experiment import ExperimentFile
    from mrc.sim.results.figures import figures

    text = "topology: {hosts: 4, hosts_per_leaf: 2}\nworkloads: [{kind: permutation, bytes: 1KB}]\n"
    experiment = ExperimentFile.parsed(text).experiment()
    for name in figures(experiment, run(experiment.setup)):
        words = figure_words(name)
        assert "_" not in words
        unit = {"us": "us", "gbps": "Gbit/s", "bytes": "bytes"}.get(name.rpartition("_")[2])
        assert unit is None or words.endswith(f", {unit}"), words


def test_keys_of_links_have_words_for_all_of_them() -> None:
    schema = json.loads(resources.files("mrc.sim.experiment").joinpath("experiment.schema.json").read_text())
    assert schema["properties"]["links"]
    for where in ("hosts", "fabric"):
        for key in ("rate", "delay", "queue", "ecn_at", "ecn_low", "ecn_high", "trim_at", "trim_to", "loss"):
            assert "_" not in key_words(f"links.{where}.{key}")


def test_a_line_is_named_by_key_and_value_or_by_what_says_itself() -> None:
    assert with_key("policies.evs", 8) == "EVs 8"
    assert with_key("links.fabric.delay", "10us") == "delay 10us"
    assert with_key("placement", "packed") == "packed"
    assert with_key("case", "1 link") == "1 link"
