# SPDX-License-Identifier: BSD-2-Clause
"""The shape of each answer and event of a control socket (docs/control.md, Requests): what the commands count on.

A shape is a type, a list with the shape of every item, an object with the shape of its members, or a tuple of
alternatives; `Every` has the shape of all members of an object. Members that a shape does not name may be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrc.records import record

_NUMBER_OR_NONE = (int, float, None)
_MOST = (
    1 << 64
)  # no count of this program, nor a time in ns, is larger; times and differences of smaller ones are floats


@record(frozen=True, slots=True)
class Every:
    """An object all of whose members have one shape."""

    shape: Any


_PEER = {"peer": str, "addresses": [str], "qps": int}
_HELLO = {
    "pid": int,
    "program": str,
    "name": str,
    "mode": str,
    "device": (str, None),
    "addresses": [str],
    "qps": int,
    "peers": [_PEER],
}
_PORT = {"port_num": int, "plane": int, "address": str, "admin": str, "link_up": bool, "up": bool}
_EV = {
    "qp_num": int,
    "peer": str,
    "ev": int,
    "plane": int,
    "spine": int,
    "state": str,
    "packets": int,
    "lost": int,
    "marked": int,
}
_STATUS_QP = {
    "qp_num": int,
    "peer": str,
    "state": str,
    "error": (str, None),
    "data_packets_sent": int,
    "data_bytes_sent": int,
    "retransmitted_packets": int,
    "bytes_placed": int,
    "cwnd_bytes": _NUMBER_OR_NONE,
    "inflight_bytes": _NUMBER_OR_NONE,
    "srtt_us": _NUMBER_OR_NONE,
}
_STATUS_PATH = {
    "peer": str,
    "ev": int,
    "plane": int,
    "spine": int,
    "state": str,
    "packets": int,
    "lost": int,
    "marked": int,
}
_STATUS = {
    "endpoint": _HELLO,
    "at_ns": int,
    "ports": [{"plane": int, "up": bool}],
    "peers": [{"peer": str, "planes_down": [int]}],
    "qps_total": int,
    "qps": [_STATUS_QP],
    "paths": [_STATUS_PATH],
    "counters": Every(int),
}
_RESULT = {"errno": (str, None), "message": str}
_ANSWERED = {**_RESULT, "response_port_num": (int, None)}
_PROFILES = Every({"state": str})

ANSWERS: Mapping[str, Any] = {
    "hello": _HELLO,
    "status": _STATUS,
    "ports": [_PORT],
    "port_set": _PORT,
    "profiles": {"ev_formats": _PROFILES, "ev_profiles": _PROFILES, "cc_profiles": _PROFILES},
    "profile_load": [str],
    "profile_state": {"kind": str, "profile": int, "state": str},
    "profile_move": {"qps": int},
    "evs": [_EV],
    "ev_ops": [{**_RESULT, "count": int}],
    "probe": [
        {
            **_ANSWERED,
            "ev": int,
            "port_num": (int, None),
            "rtt_us": _NUMBER_OR_NONE,
            "service_time_taken_off": bool,
        }
    ],
    "port_status": [_ANSWERED],
}
EVENTS: Mapping[str, Any] = {
    "ev": {
        "at_ns": int,
        "profile_id": int,
        "ev": int,
        "port_num": int,
        "plane": int,
        "peer": str,
        "state": str,
        "qp_num": int,
        "drop_count": int,
    },
    "port": {"at_ns": int, "side": str, "plane": int, "up": bool},
    "qp": {"at_ns": int, "qp_num": int, "reason": str},
    "dropped": {"dropped": int},
}


def fault_in(value: object, shape: Any, where: str = "") -> str | None:
    """The first place at which a value has another shape, such as `evs[0].spine`; None when there is none."""
    if isinstance(shape, tuple):
        return None if any(fault_in(value, each, where) is None for each in shape) else where
    if shape is None:
        return None if value is None else where
    if isinstance(shape, type):
        # type(), not isinstance: true is no number.
        return None if type(value) is shape and (shape is not int or abs(value) < _MOST) else where  # type: ignore[arg-type]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return where
        found = (fault_in(each, shape[0], f"{where}[{number}]") for number, each in enumerate(value))
        return next((fault for fault in found if fault is not None), None)
    if not isinstance(value, dict):
        return where
    members = dict.fromkeys(value, shape.shape) if isinstance(shape, Every) else shape
    for name, each in members.items():
        fault = fault_in(value.get(name), each, f"{where}.{name}" if where else name)
        if fault is not None:
            return fault
    return None
