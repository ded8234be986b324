# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of torch.distributed over MRC in a lab, beside gloo where gloo is the oracle."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from torch_backend_reference import EPSILON, given, reduced
from torch_cases_run import free_port

if TYPE_CHECKING:
    from conftest import Jobs
    from torch_ranks import Ready

    from mrc.lab import Lab

MEMORY = Path(__file__).with_name("torch_memory.py")
PATIENCE_S = 240.0
HELD, MADE = 100, 300  # groups
# gloo takes its time to destroy groups; what it holds grows with their number.
OF_GLOO = 3
# What the allocator and the interpreter keep for themselves by the time that 300 groups have come and gone.
NOISE = 1 << 20


def test_two_ranks_reduce_to_the_same_bits_as_gloo(jobs: Jobs) -> None:
    import torch

    for backend in ("mrc", "gloo"):
        jobs.run("reductions", 2, backend=backend)
    for rank in range(2):
        ours, theirs = jobs.saved(rank), jobs.saved(rank, "gloo")
        assert len(ours) > 100
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert torch.equal(ours[name], theirs[name]), name


def test_four_ranks_reduce_alike_integers_exactly_floats_closely(jobs: Jobs) -> None:
    import torch

    jobs.run("reductions", 4)
    found = [jobs.saved(rank) for rank in range(4)]
    for name, tensor in found[0].items():
        assert all(torch.equal(tensor, other[name]) for other in found[1:]), name
        dtype, count, op = name.split()
        values = [given(rank, int(count), tensor.dtype) for rank in range(4)]
        wanted, scale = reduced(values, op)
        if dtype.removeprefix("torch.") in EPSILON and op in ("SUM", "PRODUCT"):
            bound = 4 * EPSILON[dtype.removeprefix("torch.")] * scale
            assert bool(((tensor.double() - wanted.double()).abs() <= bound).all()), name
        else:
            assert torch.equal(tensor, wanted.to(tensor.dtype)), name


def test_every_other_call_leaves_what_it_has_to(jobs: Jobs) -> None:
    jobs.run("operations", 3)


@pytest.mark.parametrize(
    "job", ["coalesced", "polled", "layouts", "kinds", "between", "again", "mismatched", "libraries"]
)
def test_outputs_are_right_and_there_when_they_are_said_to_be(jobs: Jobs, job: str) -> None:
    """What each has to leave it says itself (torch_rank_outputs.py)."""
    jobs.run(job, 3)


@pytest.mark.parametrize("job", ["coalesced", "polled", "layouts", "again"])
def test_the_same_of_two_ranks(jobs: Jobs, job: str) -> None:
    jobs.run(job, 2)


def test_ddp_trains_to_the_same_weights_as_over_gloo(jobs: Jobs) -> None:
    compare_training(jobs, "ddp")


def test_gradient_hooks_that_wait_for_operations_of_their_own(jobs: Jobs) -> None:
    import torch

    for backend in ("mrc", "gloo"):
        jobs.run("hooked", 2, backend=backend)
    ours, others = jobs.saved(0), jobs.saved(1)
    assert same(ours["fp16"], jobs.saved(0, "gloo")["fp16"])
    # PowerSGD is not the same from run to run, over any backend; ranks agree in each.
    for name in ("fp16", "powersgd"):
        assert all(
            torch.equal(tensor, others[name][key]) for key, tensor in ours[name].items() if "running" not in key
        ), name


def test_fsdp_and_a_checkpoint_give_the_same_weights_as_over_gloo(jobs: Jobs) -> None:
    compare_training(jobs, "fsdp")


def compare_training(jobs: Jobs, job: str) -> None:
    for backend in ("mrc", "gloo"):
        jobs.run(job, 2, backend=backend)
    for rank in range(2):
        ours, theirs = jobs.saved(rank), jobs.saved(rank, "gloo")
        assert same(ours, theirs), f"rank {rank} differs"


def same(one: Any, other: Any) -> bool:
    """To the bit, whatever lists and dictionaries the tensors are in."""
    import torch

    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def test_torchrun_starts_the_script_of_the_page_and_again_after_a_death(jobs: Jobs) -> None:
    """On the hosts' own addresses, as between real machines. torch finds the backend by its entry point. It takes some
    seconds: the script imports torch twice on both hosts."""
    page = (Path(__file__).parents[2] / "docs/torch.md").read_text()
    (script,) = re.findall(r"```python\n(import os\n.*?)```", page, re.S)
    assert "\nuntil torchrun " in page
    before = "    points, wanted = batch(step, rank)\n"
    assert before in script
    died = jobs.folder / "died"
    death = f"    if rank == 1 and step == 50 and not os.path.exists({str(died)!r}):\n"
    death += f"        Path({str(died)!r}).touch()\n        os._exit(9)\n"
    program = jobs.folder / "train.py"
    program.write_text(script.replace(before, death + before))
    # To look for garbage in all that is imported would be a sixth of it.
    (jobs.folder / "sitecustomize.py").write_text("import gc\n\ngc.disable()\n")
    own = {"CHECKPOINT": str(jobs.folder / "checkpoint.pt"), "PYTHONPATH": str(jobs.folder)}
    written = "".join(jobs.run_until_it_ends_well(program, 2, **own))
    assert "rank 1 is gone" in written
    for rank in range(2):
        assert f"rank {rank} goes on after step 40" in written
    losses = {int(step): float(loss) for step, loss in re.findall(r"step (\d+): loss ([\d.]+)", written)}
    assert set(losses) == {20, 40, 60, 80, 100}
    assert losses[100] < losses[20] / 2


def test_a_dead_rank_is_named_by_every_other_one(jobs: Jobs) -> None:
    jobs.run("dies", 4, expect=[0, 0, 0, 9])
    for rank in range(3):
        told = jobs.told(rank)
        assert told["rank"] == 3
        assert told["text"].startswith("rank 3 is gone")
        assert "in all_reduce(" in told["text"]


def test_a_dead_rank_is_named_though_a_child_of_it_lives_on(jobs: Jobs) -> None:
    jobs.run("forks", 3, expect=[0, 0, -9])
    assert "of the process that this one was forked from" in (jobs.folder / "child.txt").read_text()


def test_ddp_names_a_dead_rank(jobs: Jobs) -> None:
    jobs.run("dies_in_ddp", 2, expect=[0, 9])
    assert "rank 1 is gone" in jobs.told(0)["text"]


def test_a_rank_that_does_not_come_in_time_ends_the_job_and_is_named(jobs: Jobs) -> None:
    jobs.run("late", 3)
    assert "is not done in the time it was given" in jobs.told(0)["text"]
    assert "rank 1" in jobs.told(0)["text"]


def test_a_script_that_destroys_no_group_ends_after_what_it_sent_has_arrived(jobs: Jobs) -> None:
    jobs.run("never_joined", 2)


def test_without_a_fabric_the_error_says_what_to_do(ready: Ready, tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text(
        "import torch.distributed as dist\ndist.init_process_group('mrc', store=dist.HashStore(), rank=0, world_size=1)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("MRC_FABRIC", "MRC_BIND")}
    ended = ready.start("h0", [str(script)], environment)
    written, _ = ended.communicate(timeout=120)
    assert ended.returncode == 1
    assert "needs MRC_FABRIC" in written
    assert "or MRC_BIND" in written
    assert "MRC_BIND=127.0.0.1 where all ranks are on this host" in written


def test_what_mrc_bind_names() -> None:
    """Addresses and interfaces; what is neither, and what is not this host's, is named with the variable."""
    from mrc.errors import CallerError, SystemRefused
    from mrc.torch.device import fabric_of_bind

    assert [port.address for port in fabric_of_bind("lo").ports] == ["127.0.0.1"]
    assert [port.address for port in fabric_of_bind("127.0.0.1, 127.0.0.2").ports] == ["127.0.0.1", "127.0.0.2"]
    for bind, error, text in (
        ("nowhere0", CallerError, r"MRC_BIND=nowhere0: 'nowhere0' is no address, and no interface of this host.* lo"),
        ("127.0.0.1,", CallerError, "MRC_BIND=127.0.0.1,: '' is no address"),
        ("lo,127.0.0.1", CallerError, "MRC_BIND=lo,127.0.0.1: 127.0.0.1 is given twice"),
        ("192.0.2.77", SystemRefused, r"MRC_BIND=192.0.2.77: 192.0.2.77 is no address of this host"),
        ("fe80::1", CallerError, "MRC_BIND=fe80::1: fe80::1 does not name this host to others"),
    ):
        with pytest.raises(error, match=text):
            fabric_of_bind(bind)


@pytest.mark.root
def test_an_interface_stands_for_its_address(torch_lab: Lab) -> None:
    """An IPv6 one where it has no other; of several the first in their order."""
    from mrc.torch.device import fabric_of_bind

    interface = json.loads(torch_lab.fabric_path("h0").read_text())["ports"][0]["interface"]
    found = torch_lab.inside("h0", lambda: fabric_of_bind(interface))
    assert found.ports[0].address == torch_lab.addresses("h0")[0]


def test_torch_is_imported_by_nothing_else() -> None:
    script = "import mrc, mrc.collectives, mrc.net.device, sys\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def measured(ready: Ready, folder: Path, *jobs: tuple[str, int, int]) -> list[dict[str, int]]:
    """The larger of what both ranks found, for each job: backend, groups that are held, groups that are made."""
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MRC_BIND": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "STORE": str(folder / "store"),
    }
    environment.pop("MRC_FABRIC", None)
    words = [str(word) for job in jobs for word in (*job, free_port())]
    program = ready.start("h0", [str(MEMORY), *words], environment)
    written, _ = program.communicate(PATIENCE_S)
    assert program.returncode == 0, written
    return [json.loads(line) for line in written.splitlines() if line.startswith("{")]


def test_groups_hold_and_leave_what_those_of_gloo_do(ready: Ready, tmp_path: Path) -> None:
    gloo, ours = measured(ready, tmp_path, ("gloo", HELD // OF_GLOO, MADE // OF_GLOO), ("mrc", HELD, MADE))
    assert ours["held"] <= 1.1 * OF_GLOO * gloo["held"]
    assert ours["left"] <= max(1.1 * OF_GLOO * gloo["left"], NOISE)
    assert ours["threads"] < 20


def test_subgroups_that_move_nothing_hold_next_to_nothing(ready: Ready, tmp_path: Path) -> None:
    (ours,) = measured(ready, tmp_path, ("subgroups", HELD, MADE))
    assert ours["held"] <= HELD * (20 << 10)
    assert ours["left"] <= NOISE
