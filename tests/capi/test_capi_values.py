# SPDX-License-Identifier: BSD-2-Clause
"""The enumerations of the Python API against the table of the C interface's values."""

from __future__ import annotations

from enum import IntEnum

import pytest

from mrc.capi.abi.values import MRC, VERBS, Values
from mrc.control import ControlCap, EvEventMask
from mrc.control.attributes import EvFormatMask
from mrc.verbs import AccessFlag, AsyncEventType, PortState, QPState, SendFlag, WCOpcode, WCStatus, WROpcode
from mrc.verbs.enums import DeviceCap, ProtocolVersion
from mrc.wire.entropy import EvMode

# Names that differ: the Python API's, then C's.
RENAMED = {
    "ProtocolVersion": {"MRC_1": "VERSION_1"},
    "QpState": {"ERROR": "ERR"},
    "WorkStatus": {
        "REMOTE_INVALID_REQUEST": "REM_INV_REQ_ERR",
        "REMOTE_ACCESS_ERROR": "REM_ACCESS_ERR",
        "REMOTE_OPERATION_ERROR": "REM_OP_ERR",
        "RETRY_EXCEEDED": "RETRY_EXC_ERR",
        "RNR_RETRY_EXCEEDED": "RNR_RETRY_EXC_ERR",
        "FLUSHED": "WR_FLUSH_ERR",
    },
}
# What this project adds: above all bits of the C interface.
OWN = {"EvEventMask": {"SKIP"}}
HELD: list[tuple[type[IntEnum], Values]] = [
    (QPState, VERBS["ibv_qp_state"]),
    (AccessFlag, VERBS["ibv_access_flags"]),
    (WROpcode, VERBS["ibv_wr_opcode"]),
    (SendFlag, VERBS["ibv_send_flags"]),
    (WCStatus, VERBS["ibv_wc_status"]),
    (WCOpcode, VERBS["ibv_wc_opcode"]),
    (AsyncEventType, VERBS["ibv_event_type"]),
    (PortState, VERBS["ibv_port_state"]),
    (ProtocolVersion, MRC["mrc_protocol_version"]),
    (DeviceCap, MRC["mrc_device_cap"]),
    (EvMode, MRC["mrc_ev_format_mode"]),
    (EvFormatMask, MRC["mrc_ev_format_mode"]),
    (EvEventMask, MRC["mrc_ev_state"]),
    (ControlCap, MRC["mrc_ctl_capability"]),
]


@pytest.mark.parametrize(("kind", "values"), HELD, ids=[kind.__name__ for kind, _ in HELD])
def test_an_enumeration_has_the_values_of_c(kind: type[IntEnum], values: Values) -> None:
    """MRC-API-01."""
    renamed, own = RENAMED.get(kind.__name__, {}), OWN.get(kind.__name__, set())
    for name, member in kind.__members__.items():
        if name in own:
            assert member > max(value for value in values.values() if value < 1 << 31)
        else:
            assert member == values[renamed.get(name, name)], name
