# SPDX-License-Identifier: BSD-2-Clause
"""All drills by name, in the order they are run."""

from __future__ import annotations

from collections.abc import Sequence

from mrc.drill.balance import BALANCE
from mrc.drill.drill import FIT, INTEGRITY, Drill
from mrc.drill.fabric_links import FABRIC_LINK_FAIL, FABRIC_LINK_FLAP
from mrc.drill.host_links import NIC_LINK_FAIL, NIC_LINK_FLAP
from mrc.drill.incast import INCAST
from mrc.drill.lossy_path import LOSSY_PATH
from mrc.drill.startup import STARTUP
from mrc.drill.switches import LEAF_FAIL, SPINE_FAIL
from mrc.drill.training.plan import PERCEPTRON
from mrc.drill.training.training import TRAINING, TRAINING_HOSTS, training
from mrc.errors import CallerError

DRILLS = {
    drill.name: drill
    for drill in (
        NIC_LINK_FAIL,
        NIC_LINK_FLAP,
        FABRIC_LINK_FAIL,
        FABRIC_LINK_FLAP,
        LEAF_FAIL,
        SPINE_FAIL,
        LOSSY_PATH,
        BALANCE,
        INCAST,
        STARTUP,
        TRAINING,
    )
}


def find(names: Sequence[str], training_hosts: int | None = None, training_model: str | None = None) -> list[Drill]:
    """The drills of these names, `all` being every one; that of training with so many hosts and with this model.

    Raises CallerError for a name there is not, for none, and for hosts or a model where there is no training;
    SystemRefused where the model needs what is not installed.
    """
    unknown = [name for name in names if name not in DRILLS and name != "all"]
    if unknown or not names:
        raise CallerError(f"no drill {', '.join(unknown) or 'named'}: there are {', '.join(DRILLS)}, and all")
    chosen = DRILLS if "all" in names else {name: DRILLS[name] for name in names}
    if training_hosts is None and training_model is None:
        return list(chosen.values())
    if TRAINING not in chosen.values():
        what = "the model" if training_hosts is None else "the number of hosts"
        raise CallerError(f"{what} is for {TRAINING.name}: the other drills have labs of their own and train nothing")
    hosts = TRAINING_HOSTS if training_hosts is None else training_hosts
    wanted = training(hosts, training_model or PERCEPTRON)
    return [wanted if each is TRAINING else each for each in chosen.values()]


def expectation_table(drill: Drill | None) -> str:
    """What a drill expects beyond what all do, as a table of docs/drills.md; None: what all do."""
    rows = (FIT, *INTEGRITY) if drill is None else drill.own_expectations
    lines = ["| figure | bound | |", "|---|---|---|"]
    lines += [f"| `{each.figure}` | {each.bound.value} {each.limit:g} | {each.meaning} |" for each in rows]
    return "\n".join(lines) + "\n"
