# SPDX-License-Identifier: BSD-2-Clause
"""Experiments on the simulator: what their tables have, and that what the file says is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from experiment_texts import EVERY_KEY, FILES

from mrc.errors import CallerError
from mrc.sim.experiment import ExperimentFile
from mrc.sim.results.execute import Executed, execute
from mrc.sim.results.parquet import read
from mrc.sim.sweep.directory import tasks
from mrc.sim.sweep.on_ray import run_on_ray

PAGE = Path(__file__).resolve().parents[3] / "docs" / "experiments.md"
SMALL = """\
topology: {hosts: 16, planes: 2, hosts_per_leaf: 4, spines: 4}
links: {fabric: {rate: 100gbit}}
workloads:
  - {kind: permutation, bytes: 200KB, shift: 4}
end: 5ms
"""


def done(text: str, files: dict[str, str] | None = None) -> Executed:
    return execute(ExperimentFile.parsed(text, files=files))


def table(executed: Executed, name: str, directory: Path) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    path = directory / f"{name}.parquet"
    path.write_bytes(executed.files[path.name])
    return read(path)


def test_an_experiment_with_every_key_runs(tmp_path: Path) -> None:
    executed = done(EVERY_KEY, FILES)
    flows = table(executed, "flows", tmp_path)
    assert set(flows["job"]) == set(executed.experiment.jobs)
    assert (flows["completed"] >= 0).mean() > 0.9
    links = table(executed, "links", tmp_path)
    planes = table(executed, "planes", tmp_path)
    assert len(links["link"]) == 2 * executed.experiment.setup.topology.cables
    for name in ("packets", "bytes", "lost", "trimmed"):
        assert links[name].sum() == planes[name].sum()
    for plane in (0, 1):
        assert links["bytes"][links["plane"] == plane].sum() == planes["bytes"][planes["plane"] == plane].sum()


def test_series_add_up_to_what_was_placed(tmp_path: Path) -> None:
    executed = done(SMALL + "sample: 1us\n")
    series, qps = table(executed, "series", tmp_path), table(executed, "qps", tmp_path)
    assert (np.diff(series["time_ns"])[:-1] == 1000).all()
    assert 0 < np.diff(series["time_ns"])[-1] <= 1000
    assert series["placed_bytes"].sum() == qps["placed_bytes"].sum() == 16 * 200_000
    assert series["flows_done"].sum() == executed.about["figures"]["flows_done"]
    assert series["time_ns"][-1] == executed.about["figures"]["end_us"] * 1e3


def test_a_collective_waits_for_what_it_needs(tmp_path: Path) -> None:
    text = SMALL.replace("permutation, bytes: 200KB, shift: 4", "all-reduce, algorithm: halving-doubling, bytes: 256KB")
    executed = done(text)
    flows = executed.experiment.setup.flows
    columns = table(executed, "flows", tmp_path)
    assert (columns["completed"] >= 0).all()
    for row in range(len(flows)):
        waited_for = flows.after[flows.after_first[row] : flows.after_first[row + 1]]
        if len(waited_for):
            assert columns["started"][row] >= columns["arrived"][waited_for].max()


def test_a_plane_that_is_cut_carries_nothing_more(tmp_path: Path) -> None:
    cut = "failures: [{kind: cut, at: 1us, target: 'plane:1'}]\n"
    whole, broken = done(SMALL), done(SMALL + cut)
    assert broken.about["figures"]["flows_done"] == 16
    assert broken.about["figures"]["fct_p50_us"] > 1.5 * whole.about["figures"]["fct_p50_us"]
    planes = table(broken, "planes", tmp_path)
    carried = [planes["bytes"][planes["plane"] == plane].sum() for plane in (0, 1)]
    assert carried[1] < 0.05 * carried[0]


def test_outages_name_the_links_that_were_cut(tmp_path: Path) -> None:
    for_good, a_while = "at: 2us, target: 'p0l1-p0s2, h3-p0l0'", "at: 3us, target: p1l0-p1s0, for: 50us"
    cut = f"failures: [{{kind: cut, {for_good}}}, {{kind: cut, {a_while}}}]"
    outages = table(done(SMALL + cut + "\n"), "outages", tmp_path)
    assert outages["link"].tolist() == ["p0l1-p0s2"] * 2 + ["p1l0-p1s0"] * 2
    assert outages["direction"].tolist() == ["up", "down"] * 2
    assert outages["up"].tolist() == [-1, -1, 53_000, 53_000]
    assert (outages["first_found"] > outages["down"]).all()
    assert not len(table(done(SMALL), "outages", tmp_path)["link"])


def test_a_lossy_direction_loses_there_alone(tmp_path: Path) -> None:
    executed = done(SMALL + "failures: [{kind: loss, target: p0l1-p0s2, loss: 20%, direction: up}]\n")
    links = table(executed, "links", tmp_path)
    lossy = (links["link"] == "p0l1-p0s2") & (links["direction"] == "up")
    assert links["lost"][lossy].sum() == links["lost"].sum() > 0


CONTROLLER = """\
from mrc.endpoint.congestion import FixedWindow, FixedWindowConfig

class Tiny(FixedWindow):
    def __init__(self, sizes):
        super().__init__(sizes, FixedWindowConfig(window_packets=2))
"""


def test_a_controller_of_ones_own_decides_the_window() -> None:
    """Two packets in flight for each round trip, in place of what the line carries."""
    tiny = done(SMALL + "policies: {controller: 'policies.py:Tiny'}\n", {"policies.py": CONTROLLER})
    by_name = done(SMALL + "policies: {controller: fixed, controller_settings: {window_packets: 2}}\n")
    assert tiny.about["figures"] == by_name.about["figures"]
    assert tiny.about["figures"]["fct_p50_us"] > 5 * done(SMALL).about["figures"]["fct_p50_us"]


CHOICE = next(
    text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "class Choice" in text
)


def test_a_choice_of_evs_of_ones_own_decides_the_paths(tmp_path: Path) -> None:
    """That of docs/experiments.md: each of 32 ends takes the two uplinks behind those of the end before."""
    executed = done(SMALL + "policies: {evs: 4, ev_choice: 'policies.py:Choice'}\n", {"policies.py": CHOICE})
    packets = table(executed, "paths", tmp_path)["packets"]
    assert packets.min() > 0.8 * packets.max()
    again = done(SMALL + "policies: {evs: 4, ev_choice: 'policies.py:Choice'}\n", {"policies.py": CHOICE})
    assert again.files == executed.files
    one = "def one(request):\n    return [(1, request.uplinks[2])]\n"
    executed = done(SMALL + "policies: {evs: 4, ev_choice: 'mine.py:one'}\n", {"mine.py": one})
    used = table(executed, "paths", tmp_path)["packets"].reshape(2, 4) > 0
    # An EV probe goes by a random EV, and there is no other.
    assert np.argwhere(used).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return []", "1 to 4 were to be chosen, got 0"),
        ("return [(0, n) for n in range(4)] + [(1, 0)]", "1 to 4 were to be chosen, got 5"),
        ("return [(0, 0), (0, 0)]", "a way was chosen twice"),
        ("return [(2, 0)]", "hosts 0 and 4: there is no way by plane 2 and uplink 0"),
        ("return [(0, 9)]", "no way by plane 0 and uplink 9"),
        ("return [7]", r"a way is \(plane, uplink\), got 7"),
        ("return 1 / 0", "mine.py:2: ZeroDivisionError"),
    ],
)
def test_a_wrong_choice_of_evs_is_refused(body: str, said: str) -> None:
    with pytest.raises(CallerError, match=said):
        done(SMALL + "policies: {evs: 4, ev_choice: 'mine.py:one'}\n", {"mine.py": f"def one(request):\n    {body}\n"})


WITH_SETTINGS = """\
from dataclasses import dataclass
from mrc.endpoint.congestion import ControllerConfig, FixedWindow, FixedWindowConfig, setting

@dataclass(frozen=True)
class TinyConfig(ControllerConfig):
    section = "tiny"
    packets: int = setting(2, "the window", unit="full packets", low=1, high=64)

class Tiny(FixedWindow):
    def __init__(self, sizes, config=None):
        super().__init__(sizes, FixedWindowConfig(window_packets=(config or TinyConfig()).packets))
"""


def test_a_controller_with_a_configuration_of_its_own_is_read_as_python_reads_it() -> None:
    """A dataclass looks its module up; annotations are what the file makes them, not what the loader does."""
    by_file = done(SMALL + "policies: {controller: 'policies.py:Tiny'}\n", {"policies.py": WITH_SETTINGS})
    by_name = done(SMALL + "policies: {controller: fixed, controller_settings: {window_packets: 2}}\n")
    assert by_file.about["figures"] == by_name.about["figures"]


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(CallerError, match=r"pip install 'softmrc\[ray\]'"):
        next(run_on_ray(tasks(ExperimentFile.parsed(SMALL)), "auto"))
