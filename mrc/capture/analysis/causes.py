# SPDX-License-Identifier: BSD-2-Clause
"""Findings in the order to read them: each cause before what follows from it on the same path or QP."""

from __future__ import annotations

from dataclasses import replace

from mrc.capture.analysis.finding import SEVERITIES, Finding

# What a cause on a path, a plane or a switch explains there, by kind. A kind that comes first here causes the later.
_SYMPTOMS = {
    "dead-plane": ("lossy-plane", "lossy-switch", "lossy-path", "path-out", "unanswered-probes"),
    "dead-switch": ("lossy-switch", "lossy-path", "path-out", "unanswered-probes"),
    "lossy-plane": ("path-out", "unanswered-probes"),
    "lossy-switch": ("path-out", "unanswered-probes"),
    "dead-path": ("lossy-path", "path-retransmissions", "path-out", "path-carried-less", "unanswered-probes"),
    "lossy-path": ("path-retransmissions", "path-out", "path-carried-less", "unanswered-probes"),
    "corrupting-path": ("loss-before-capture",),
    "congestion": ("slow-path",),
    "slow-plane": ("spurious-retransmissions", "path-out"),
    "slow-switch": ("spurious-retransmissions", "path-out"),
    "slow-path": ("spurious-retransmissions", "path-out"),
    "reported-lossy-path": ("reported-path-out",),
}
# And what it explains on its QP, whichever path.
_SYMPTOMS_OF_QP = {
    "receiver-not-ready": ("stall",),
    "retries-exhausted": ("qp-error", "never-acknowledged"),
    "congestion": ("congestion-notifications", "window-limited"),
    # With its answer late a packet looks lost, and a window stays full.
    "slow-answers": ("spurious-retransmissions", "window-limited"),
}


def _follows(each: Finding, cause: Finding) -> bool:
    if each.qp != cause.qp:
        return False
    symptoms: tuple[str, ...] = _SYMPTOMS_OF_QP.get(cause.kind, ())
    same_path = each.ev is not None and (each.ev == cause.ev or each.ev in cause.evs)
    if same_path or (cause.evs and each.evs and set(each.evs) <= set(cause.evs)):
        symptoms += _SYMPTOMS.get(cause.kind, ())
    return each.kind in symptoms


def in_order(found: list[Finding]) -> list[Finding]:
    """Causes by severity, then weight; behind each its symptoms, whose `cause` is its place in this list."""
    ranked = sorted(found, key=lambda each: (SEVERITIES.index(each.severity), -each.weight))
    causes: dict[int, Finding] = {}
    for kind in (*_SYMPTOMS, *_SYMPTOMS_OF_QP):
        for cause in (each for each in ranked if each.kind == kind and id(each) not in causes):
            for each in ranked:
                if each is not cause and _follows(each, cause):
                    causes.setdefault(id(each), cause)
    ordered: list[Finding] = []
    for each in ranked:
        if id(each) in causes:
            continue
        ordered.append(replace(each, cause=None))
        place = len(ordered) - 1
        ordered += [replace(symptom, cause=place) for symptom in ranked if causes.get(id(symptom)) is each]
    return ordered
