# SPDX-License-Identifier: BSD-2-Clause
"""Layouts and values of mrc_ctl.h, as OCP's header 1.0.1 has them (tests/capi), on machines with 64-bit pointers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mrc.capi.abi.layouts import Layout
from mrc.capi.abi.values import Values

LAYOUTS: Final[Mapping[str, Layout]] = {
    "mrc_ctl_device_attr": Layout(
        72,
        {
            "mrc_ctl_protocol_version": 0,
            "ev.ev_max_fmt_profiles": 4,
            "ev.ev_max_profiles": 8,
            "ev.ev_max_count": 12,
            "ev.ev_free_count": 16,
            "ev.ev_max_count_profile": 20,
            "ev.ev_count_align": 24,
            "ev.ev_max_width": 28,
            "ev.ev_fmt_mode_mask": 32,
            "ev.ev_mode_mask": 36,
            "ev.ev_op_max_entries": 40,
            "cc.cc_max_profiles": 48,
            "cc.algorithms": 56,
            "phy_port_mask": 64,
            "opt_attr": 68,
        },
    ),
    "mrc_ctl_port_attr": Layout(4, {"port_admin_state": 0}),
    "mrc_ctl_ev_fmt_profile_attr": Layout(
        168,
        {
            "profile_state": 0,
            "cur_profile_state": 4,
            "ev_fmt_mode": 8,
            "ev_fmt_op.op": 16,
            "ev_fmt_op.fmt_fields": 24,
            "ev_fmt_op.fmt_field_count": 32,
            "vendor_cfg": 40,
        },
    ),
    "mrc_ctl_ev": Layout(33, {"val": 0, "port": 32}),
    "mrc_ctl_ev_field": Layout(20, {"width": 0, "init_val": 4, "min_val": 8, "max_val": 12, "mask": 16}),
    "mrc_ctl_ev_op_entry": Layout(76, {"ev": 0, "ev_new": 33, "state": 68, "flags": 72}),
    "mrc_ctl_ev_profile_attr": Layout(
        216,
        {
            "profile_state": 0,
            "cur_profile_state": 4,
            "ev_mode": 8,
            "ev_fmt_profile_id": 16,
            "ev_count": 24,
            "ev_min_active": 28,
            "ev_event_mask": 32,
            "ev_op.op": 40,
            "ev_op.entries": 48,
            "ev_op.entry_count": 56,
            "ev_fields_op.op": 64,
            "ev_fields_op.fields": 72,
            "ev_fields_op.field_count": 80,
            "vendor_cfg": 88,
        },
    ),
    "mrc_ctl_cc_profile_attr": Layout(
        152, {"profile_state": 0, "cur_profile_state": 4, "algorithm": 8, "cc_config": 16, "vendor_cfg": 24}
    ),
    "mrc_ctl_cc_nscc_cfg": Layout(
        52,
        {
            "disable_qa": 0,
            "adjust_bytes_threshold": 4,
            "adjust_period_threshold": 8,
            "base_rtt": 12,
            "eta": 16,
            "fi": 20,
            "fi_scale": 24,
            "gamma": 28,
            "max_md_jump": 32,
            "max_cwnd": 36,
            "qa_gate": 40,
            "qa_threshold": 44,
            "target_delay": 48,
        },
    ),
    "mrc_ctl_ep_rsp": Layout(12, {"req_id": 0, "port": 2, "rtt": 4, "adj_svc_time": 8}),
    "mrc_ctl_ev_event": Layout(56, {"profile_id": 0, "ev": 8, "drop_count": 44, "state": 48}),
    "mrc_ctl_ep_req": Layout(
        88,
        {"req_id": 0, "sgid": 8, "dgid": 24, "ev_fmt_mode": 40, "req_ev": 44, "op.port_status_update.port_status": 80},
    ),
}

# By the prefix of the names in C.
VALUES: Final[Mapping[str, Values]] = {
    "MRC_CTL_": {"MAX_VENDOR_CFG_SIZE": 128, "EV_MAX_BYTES": 32, "API_CURRENT_VERSION": 0x01000001},
    "MRC_CTL_PROTOCOL_": {"VERSION_0": 0, "VERSION_1": 1},
    "MRC_CTL_PROFILE_": {"INIT": 0, "OFFLINE": 1, "ONLINE": 2},
    "MRC_CTL_OPT_CAP_": {
        "EV_PROFILE_MODIFY_ONLINE": 1,
        "CC_PROFILE_MODIFY_ONLINE": 2,
        "EV_EVENT": 4,
        "EV_EXPLICIT_RANGE": 8,
        "EV_EVENT_PRECISE_DROP_CNT": 16,
        "EP_OP_EV_PROBE": 32,
    },
    "MRC_CTL_PORT_ADMIN_": {"DISABLED": 0, "ENABLED": 1, "STATE": 1},
    "MRC_CTL_EV_FMT_MODE_": {"STEV": 1, "SRV6": 2, "UDP": 4},
    "MRC_CTL_EV_FMT_OP_": {"MODIFY_FIELDS": 0, "QUERY_FIELDS": 1},
    "MRC_CTL_EV_FMT_": {"PROFILE_STATE": 1, "PROFILE_CUR_STATE": 2, "PROFILE_MODE": 4, "PROFILE_OP": 8},
    "MRC_CTL_EV_": {"GOOD": 1, "ASSUMED_BAD": 2, "DENIED": 4, "UNKNOWN": -(1 << 31)},
    "MRC_CTL_EV_MODE_": {"AUTO": 1, "EXP": 2, "GEN": 4},
    "MRC_CTL_EV_OP_": {
        "REPLACE_EV": 0,
        "MODIFY_EV_STATE": 1,
        "QUERY_EV_STATE": 2,
        "QUERY_EV_ARRAY": 3,
        "F_ALL_COPIES": 1,
    },
    "MRC_CTL_EV_FIELDS_OP_": {"MODIFY_FIELDS": 0, "QUERY_FIELDS": 1},
    "MRC_CTL_EV_PROFILE_": {
        "STATE": 1,
        "CUR_STATE": 2,
        "MODE": 4,
        "FMT_ID": 8,
        "COUNT": 16,
        "MIN_ACTIVE": 32,
        "EVENT_MASK": 64,
        "EV_OP": 128,
        "EV_FIELDS_OP": 256,
        "VENDOR_CFG": -(1 << 31),
    },
    "MRC_CTL_CC_PROFILE_": {"STATE": 1, "CUR_STATE": 2, "ALGORITHM": 4, "CONFIG": 8, "VENDOR_CFG": -(1 << 31)},
    "MRC_CTL_EP_OP_": {"EV_PROBE": 0, "PORT_STATUS_UPDATE": 1},
}
