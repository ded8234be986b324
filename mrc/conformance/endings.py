# SPDX-License-Identifier: BSD-2-Clause
"""Turn the exception that ended a case into its verdict, and say whose exception it was.

Only an expectation that was not met, a refusal and a crash of the endpoint under test are failures of the target. Any
other exception is a fault of the suite or of the target's adapter: it proves nothing about the target.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from mrc.conformance import target as target_module
from mrc.conformance import virtual as virtual_module
from mrc.conformance.target import (
    AdapterFault,
    Refused,
    Session,
    Target,
    TargetCrashed,
    TargetLost,
    TargetQp,
    Unsupported,
)
from mrc.conformance.verdicts import ERROR, FAILED, UNSUPPORTED, Failed

_OFFERED = (Target, Session, TargetQp)
# Bases of adapters: of a call through them the adapter's own method is the one to name.
_BASES = {module.__file__ for module in (target_module, virtual_module)}
# How Python complains of a call that does not fit the signature: the exception is the caller's, the fault is not.
_SIGNATURE = re.compile(r"(?:[\w<>]+\.)*(\w+)\.(\w+)\(\) (?:takes|missing|got)\b")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a case ended. `expected` and `actual` as in `Result`; `traceback` is "" where there is none to show; `lost`
    says how the target was lost, "" as a rule."""

    verdict: str
    expected: str | None = None
    actual: str | None = None
    traceback: str = ""
    lost: str = ""


def ending_of(error: Exception) -> Ending:
    """How a case ended that raised this."""
    if isinstance(error, Unsupported):
        return Ending(UNSUPPORTED, actual=str(error))
    if isinstance(error, Failed):
        return Ending(FAILED, error.expected, error.actual)
    if isinstance(error, Refused):
        return Ending(FAILED, "the target to do what was asked", f"it refused: {error}")
    if isinstance(error, TargetCrashed):
        return Ending(FAILED, "a target that keeps running", str(error), _traceback(error))
    if isinstance(error, TargetLost):
        return Ending(ERROR, actual=f"the target was lost: {error}", lost=str(error))
    return Ending(ERROR, actual=_blamed(error), traceback=_traceback(error))


def _traceback(error: Exception) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def _blamed(error: Exception) -> str:
    """`the adapter's Session.collect raised KeyError: 'x' (my_nic.py:33)`, or `the suite raised ...`."""
    if isinstance(error, AdapterFault):
        return str(error)
    method = _adapter_method(error)
    whose = "the suite" if method is None else f"the adapter's {method}"
    message = " ".join(str(error).split())
    raised = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{whose} raised {raised} ({_place(error)})"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "no place is known"


def _adapter_method(error: Exception) -> str | None:
    """The method of the adapter that raised, None where the suite did."""
    called = [frame for frame in _frames(error) if isinstance(frame.f_locals.get("self"), _OFFERED)]
    own = [frame for frame in called if frame.f_code.co_filename not in _BASES]
    if called:
        return (own or called)[0].f_code.co_qualname
    if isinstance(error, AttributeError) and isinstance(error.obj, _OFFERED):
        return f"{type(error.obj).__name__}.{error.name}"
    found = _SIGNATURE.match(str(error)) if isinstance(error, TypeError) else None
    if found is not None and any(hasattr(each, found[2]) for each in _OFFERED):
        return f"{found[1]}.{found[2]}"
    return None


def _frames(error: Exception) -> Iterator[FrameType]:
    place = error.__traceback__
    while place is not None:
        yield place.tb_frame
        place = place.tb_next
