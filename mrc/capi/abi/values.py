# SPDX-License-Identifier: BSD-2-Clause
"""The values of enumerations and flags of the C interface, by the name of their C type, then by the member's name.

Those of libibverbs are the ones that rdma-core's ABI has; those of MRC are the standard's (docs/protocol/api.md). A
Python enumeration that goes by one of these names has the same values (tests/capi).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Values = Mapping[str, int]

# ------------------------------------------------------------------ libibverbs

VERBS: Final[Mapping[str, Values]] = {
    "ibv_qp_state": {"RESET": 0, "INIT": 1, "RTR": 2, "RTS": 3, "SQD": 4, "SQE": 5, "ERR": 6, "UNKNOWN": 7},
    "ibv_qp_type": {"RC": 2, "UC": 3, "UD": 4},
    "ibv_access_flags": {
        "LOCAL_WRITE": 1 << 0,
        "REMOTE_WRITE": 1 << 1,
        "REMOTE_READ": 1 << 2,
        "REMOTE_ATOMIC": 1 << 3,
        "RELAXED_ORDERING": 1 << 20,
    },
    "ibv_wr_opcode": {"RDMA_WRITE": 0, "RDMA_WRITE_WITH_IMM": 1, "SEND": 2, "SEND_WITH_IMM": 3, "RDMA_READ": 4},
    "ibv_send_flags": {"FENCE": 1 << 0, "SIGNALED": 1 << 1, "SOLICITED": 1 << 2, "INLINE": 1 << 3},
    "ibv_qp_create_send_ops_flags": {"WITH_RDMA_WRITE": 1 << 0, "WITH_RDMA_WRITE_WITH_IMM": 1 << 1},
    "ibv_wc_status": {
        "SUCCESS": 0,
        "LOC_LEN_ERR": 1,
        "LOC_QP_OP_ERR": 2,
        "LOC_PROT_ERR": 4,
        "WR_FLUSH_ERR": 5,
        "REM_INV_REQ_ERR": 9,
        "REM_ACCESS_ERR": 10,
        "REM_OP_ERR": 11,
        "RETRY_EXC_ERR": 12,
        "RNR_RETRY_EXC_ERR": 13,
        "FATAL_ERR": 19,
        "GENERAL_ERR": 21,
    },
    "ibv_wc_opcode": {"SEND": 0, "RDMA_WRITE": 1, "RECV": 128, "RECV_RDMA_WITH_IMM": 129},
    "ibv_wc_flags": {"GRH": 1 << 0, "WITH_IMM": 1 << 1},
    "ibv_event_type": {"CQ_ERR": 0, "QP_FATAL": 1, "DEVICE_FATAL": 8, "PORT_ACTIVE": 9, "PORT_ERR": 10},
    "ibv_port_state": {"NOP": 0, "DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4},
    "ibv_mtu": {"256": 1, "512": 2, "1024": 3, "2048": 4, "4096": 5},
    "ibv_node_type": {"CA": 1},
    "ibv_transport_type": {"IB": 0},
    "ibv_qp_attr_mask": {
        "STATE": 1 << 0,
        "CUR_STATE": 1 << 1,
        "ACCESS_FLAGS": 1 << 3,
        "PKEY_INDEX": 1 << 4,
        "PORT": 1 << 5,
        "QKEY": 1 << 6,
        "AV": 1 << 7,
        "PATH_MTU": 1 << 8,
        "TIMEOUT": 1 << 9,
        "RETRY_CNT": 1 << 10,
        "RNR_RETRY": 1 << 11,
        "RQ_PSN": 1 << 12,
        "MAX_QP_RD_ATOMIC": 1 << 13,
        "ALT_PATH": 1 << 14,
        "MIN_RNR_TIMER": 1 << 15,
        "SQ_PSN": 1 << 16,
        "MAX_DEST_RD_ATOMIC": 1 << 17,
        "PATH_MIG_STATE": 1 << 18,
        "CAP": 1 << 19,
        "DEST_QPN": 1 << 20,
    },
}

# ------------------------------------------------------------------ MRC

MRC: Final[Mapping[str, Values]] = {
    # Versions of the protocol that a device implements, a bit each; 0 is version 0.
    "mrc_protocol_version": {"VERSION_0": 0, "VERSION_1": 1 << 0},
    "mrc_device_cap": {"TRIM_NACK": 1 << 0, "DYNAMIC_MPR": 1 << 1, "SVC_TIME": 1 << 2},
    "mrc_qp_cap": {"TRIM_NACK_DEST_UNSUPPORTED": 1 << 0, "DYNAMIC_MPR": 1 << 1, "SVC_TIME_DEST_UNSUPPORTED": 1 << 2},
    "mrc_qp_attr_mask": {
        "MAX_WIMM": 1 << 0,
        "MAX_WIMM_DEST": 1 << 1,
        "MPR": 1 << 2,
        "MPR_DEST": 1 << 3,
        "TIMEOUT": 1 << 4,
        "EV_PROFILE_ID": 1 << 5,
        "CC_PROFILE_ID": 1 << 6,
        "HINT": 1 << 7,
        "RETRY_CNT": 1 << 8,
        "CAP": 1 << 9,
        "VENDOR_CFG": -1 << 31,  # bit 31 of an int
    },
    "mrc_qp_hint_attr_mask": {
        "NUM_QPS_PER_PEER": 1 << 0,
        "NUM_SEND_PEERS": 1 << 1,
        "NUM_REMOTE_RECV_PEERS": 1 << 2,
        "VENDOR_CFG": -1 << 31,
    },
    # 8 bits of a major number, 8 of a minor, 16 of a subminor: no enumeration, but macros.
    "mrc_api": {
        "API_CURRENT_VERSION": 1 << 24 | 1,
        "API_LAST_SUPPORTED_VERSION": 0,
        "VENDOR_API_CURRENT_VERSION": 1 << 24,
        "VENDOR_API_LAST_SUPPORTED_VERSION": 0,
        "MAX_VENDOR_CFG_SIZE": 128,
    },
    "mrc_ev_format_mode": {"STEV": 1, "SRV6": 2, "UDP": 4},
    "mrc_ev_state": {"GOOD": 1, "ASSUMED_BAD": 2, "DENIED": 4, "UNKNOWN": 1 << 31},
    "mrc_ctl_capability": {
        "EV_PROFILE_MODIFY_ONLINE": 1,
        "CC_PROFILE_MODIFY_ONLINE": 2,
        "EV_EVENT": 4,
        "EV_EXPLICIT_RANGE": 8,
        "EV_EVENT_PRECISE_DROP_CNT": 16,
        "EP_OP_EV_PROBE": 32,
    },
}
