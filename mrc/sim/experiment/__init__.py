# SPDX-License-Identifier: BSD-2-Clause
"""Experiments: files that say what is simulated, and what `mrc.sim.cluster` makes of them.

    experiment = ExperimentFile.read("incast.yaml").experiment()
    outcome = run(experiment.setup)

docs/experiments.md has every key.
"""

from mrc.sim.experiment.build import Experiment
from mrc.sim.experiment.file import ExperimentFile
from mrc.sim.experiment.workloads.flows import Job, JobFlows

__all__ = ["Experiment", "ExperimentFile", "Job", "JobFlows"]
