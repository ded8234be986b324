# SPDX-License-Identifier: BSD-2-Clause
"""What results say they are: model, version, seed, the range in which the model was validated, and the experiment."""

from __future__ import annotations

import hashlib
from typing import Any

from mrc.sim.cluster import Outcome
from mrc.sim.experiment import ExperimentFile
from mrc.sim.experiment.build import Experiment
from mrc.sim.results.figures import figures, job_figures

# A cell of a sweep is the same with it and without.
_LEFT_OUT = ("sweep",)


def about(file: ExperimentFile, experiment: Experiment, outcome: Outcome) -> dict[str, Any]:
    """JSON. Nothing in it differs from run to run: no times of the machine, no paths."""
    return {
        "model": outcome.model,
        "version": outcome.version,
        "seed": outcome.seed,
        "validated": outcome.validated,
        "notes": list(outcome.notes),
        "name": experiment.name,
        "digest": file.digest,
        "experiment": {key: value for key, value in file.document.items() if key not in _LEFT_OUT},
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(file.files.items())},
        "jobs": job_figures(experiment, outcome),
        "figures": figures(experiment, outcome),
    }
