# SPDX-License-Identifier: BSD-2-Clause
"""The requirements a case can be about: the tables of requirements.md, which lies beside this file as a link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ID = re.compile(r"(M?RC-[A-Z][A-Z0-9]*-)(\d\d)(?:\.\.(\d\d))?\Z")

WIRE, RESPONDER, REQUESTOR, LOSS_RECOVERY = "wire", "responder", "requestor", "loss recovery"
PATHS, CONGESTION, ENDPOINT_OPERATIONS = "paths", "congestion", "endpoint operations"
ERRORS, ROBUSTNESS = "errors", "robustness"
GROUPS = (
    WIRE,
    RESPONDER,
    REQUESTOR,
    LOSS_RECOVERY,
    PATHS,
    CONGESTION,
    ENDPOINT_OPERATIONS,
    ERRORS,
    ROBUSTNESS,
)
# The group of a requirement's cases, unless a case says otherwise.
_GROUP_OF = {
    "WIRE": WIRE,
    "ICRC": WIRE,
    "EV": WIRE,
    "SRV6": WIRE,
    "ECN": WIRE,
    "NAME": WIRE,
    "ACK": RESPONDER,
    "SACK": RESPONDER,
    "NACK": RESPONDER,
    "TRIM": RESPONDER,
    "RESP": RESPONDER,
    "IMM": RESPONDER,
    "MPR": RESPONDER,
    "REQ": REQUESTOR,
    "SEND": REQUESTOR,
    "QP": ERRORS,
    "ERR": ERRORS,
    "LOSS": LOSS_RECOVERY,
    "RETRY": LOSS_RECOVERY,
    "RTT": LOSS_RECOVERY,
    "PROBE": LOSS_RECOVERY,
    "PATH": PATHS,
    "PORT": PATHS,
    "CC": CONGESTION,
    "OP": ENDPOINT_OPERATIONS,
    "CTL": ENDPOINT_OPERATIONS,
    "API": ENDPOINT_OPERATIONS,
}
MUST, SHOULD, MAY = "must", "should", "may"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row: `grade` A, B or C, `level` must, should or may, `source` the page and section it comes from."""

    id: str
    text: str
    grade: str
    level: str
    source: str

    @property
    def group(self) -> str:
        return _GROUP_OF[self.id.split("-")[1]]


@cache
def requirements() -> dict[str, Requirement]:
    """All of them by id, in the order of the document."""
    return tabled((files("mrc.conformance") / "requirements.md").read_text(encoding="utf-8"), "MRC")


def tabled(text: str, family: str) -> dict[str, Requirement]:
    """The rows of a document's tables whose ids begin with `family`, by id."""
    found = {}
    for line in text.splitlines():
        if line.startswith(f"| {family}-"):
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            found[cells[0]] = Requirement(*cells)
    return found


def ids_in(text: str) -> Iterator[str]:
    """The ids of `MRC-CC-01` or of a range, `MRC-CC-01..34`."""
    match = ID.match(text)
    if match is None:
        raise ValueError(f"{text!r} is neither an id nor a range of ids")
    group, first, last = match.groups()
    yield from (f"{group}{number:02}" for number in range(int(first), int(last or first) + 1))
