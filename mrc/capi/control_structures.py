# SPDX-License-Identifier: BSD-2-Clause
"""The structures of mrc_ctl.h, as they are in a C program's memory (tests/capi holds them against the header)."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_float, c_int, c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

VENDOR_CFG_BYTES = 128
EV_BYTES = 32
# The highest bit of an attribute mask, and of a state.
BIT_31 = 1 << 31


class EvLimits(ctypes.Structure):
    _fields_ = tuple(
        (name, c_uint32)
        for name in (
            "ev_max_fmt_profiles",
            "ev_max_profiles",
            "ev_max_count",
            "ev_free_count",
            "ev_max_count_profile",
            "ev_count_align",
            "ev_max_width",
            "ev_fmt_mode_mask",
            "ev_mode_mask",
            "ev_op_max_entries",
        )
    )


class CcLimits(ctypes.Structure):
    _fields_ = (("cc_max_profiles", c_uint32), ("algorithms", c_void_p))


class DeviceAttr(ctypes.Structure):
    """mrc_ctl_device_attr."""

    _fields_ = (
        ("mrc_ctl_protocol_version", c_uint32),
        ("ev", EvLimits),
        ("cc", CcLimits),
        ("phy_port_mask", c_uint32),
        ("opt_attr", c_uint32),
    )


class PortAttr(ctypes.Structure):
    """mrc_ctl_port_attr."""

    _fields_ = (("port_admin_state", c_int),)


class FormatFields(ctypes.Structure):
    _fields_ = (("op", c_int), ("fmt_fields", c_void_p), ("fmt_field_count", c_int))


class FormatAttr(ctypes.Structure):
    """mrc_ctl_ev_fmt_profile_attr."""

    _fields_ = (
        ("profile_state", c_int),
        ("cur_profile_state", c_int),
        ("ev_fmt_mode", c_int),
        ("ev_fmt_op", FormatFields),
        ("vendor_cfg", c_uint8 * VENDOR_CFG_BYTES),
    )


class Ev(ctypes.Structure):
    """mrc_ctl_ev."""

    _fields_ = (("val", c_uint8 * EV_BYTES), ("port", c_uint8))


class EvField(ctypes.Structure):
    """mrc_ctl_ev_field."""

    _fields_ = (
        ("width", c_uint32),
        ("init_val", c_uint32),
        ("min_val", c_uint32),
        ("max_val", c_uint32),
        ("mask", c_uint32),
    )


class EvOpEntry(ctypes.Structure):
    """mrc_ctl_ev_op_entry."""

    _fields_ = (("ev", Ev), ("ev_new", Ev), ("state", c_uint32), ("flags", c_uint32))


class EvOps(ctypes.Structure):
    _fields_ = (("op", c_int), ("entries", c_void_p), ("entry_count", c_int))


class EvFields(ctypes.Structure):
    _fields_ = (("op", c_int), ("fields", c_void_p), ("field_count", c_int))


class EvAttr(ctypes.Structure):
    """mrc_ctl_ev_profile_attr."""

    _fields_ = (
        ("profile_state", c_int),
        ("cur_profile_state", c_int),
        ("ev_mode", c_int),
        ("ev_fmt_profile_id", c_uint64),
        ("ev_count", c_uint32),
        ("ev_min_active", c_uint32),
        ("ev_event_mask", c_uint32),
        ("ev_op", EvOps),
        ("ev_fields_op", EvFields),
        ("vendor_cfg", c_uint8 * VENDOR_CFG_BYTES),
    )


class CcAttr(ctypes.Structure):
    """mrc_ctl_cc_profile_attr."""

    _fields_ = (
        ("profile_state", c_int),
        ("cur_profile_state", c_int),
        ("algorithm", c_char_p),
        ("cc_config", c_void_p),
        ("vendor_cfg", c_uint8 * VENDOR_CFG_BYTES),
    )


class NsccCfg(ctypes.Structure):
    """mrc_ctl_cc_nscc_cfg."""

    _fields_ = (
        ("disable_qa", c_uint8),
        ("adjust_bytes_threshold", c_uint32),
        ("adjust_period_threshold", c_uint32),
        ("base_rtt", c_uint32),
        ("eta", c_float),
        ("fi", c_float),
        ("fi_scale", c_float),
        ("gamma", c_float),
        ("max_md_jump", c_float),
        ("max_cwnd", c_uint32),
        ("qa_gate", c_uint8),
        ("qa_threshold", c_uint32),
        ("target_delay", c_uint32),
    )


class PortStatus(ctypes.Structure):
    _fields_ = (("port_status", c_uint32),)


class OfOperation(ctypes.Union):
    _fields_ = (("port_status_update", PortStatus),)


class EpReq(ctypes.Structure):
    """mrc_ctl_ep_req."""

    _fields_ = (
        ("req_id", c_uint16),
        ("sgid", c_uint64 * 2),
        ("dgid", c_uint64 * 2),
        ("ev_fmt_mode", c_int),
        ("req_ev", Ev),
        ("op", OfOperation),
    )


class EpRsp(ctypes.Structure):
    """mrc_ctl_ep_rsp."""

    _fields_ = (("req_id", c_uint16), ("port", c_uint8), ("rtt", c_uint), ("adj_svc_time", c_uint8))
