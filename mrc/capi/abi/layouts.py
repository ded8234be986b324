# SPDX-License-Identifier: BSD-2-Clause
"""Sizes of the C interface's structures and the places of their members, in bytes, on machines with 64-bit pointers.

Those of mrc.h are the ones that OCP's header 1.0.1 has (tests/capi). rdma-core's are not listed: its own header is on
most machines, and the tests compare with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Layout(NamedTuple):
    """A structure: its size, and where each member begins."""

    size: int
    places: Mapping[str, int]


MRC: Final[Mapping[str, Layout]] = {
    "mrc_device_attr": Layout(
        20,
        {
            "mrc_protocol_version": 0,
            "wimm_attr.max_wimm": 4,
            "wimm_attr.max_wimm_dest": 6,
            "mpr_attr.max_mpr": 8,
            "mpr_attr.mpr_resolution": 9,
            "qp_attr.max_qp_hint": 12,
            "cap": 16,
        },
    ),
    "mrc_context_attr": Layout(8, {"mrc_api_version_used": 0, "mrc_vendor_api_version_used": 4}),
    "mrc_qp_hint_attr": Layout(
        140, {"num_qps_per_peer": 0, "num_send_peers": 4, "num_remote_recv_peers": 8, "vendor_cfg": 12}
    ),
    "mrc_qp_hint_init_attr": Layout(140, {"attr": 0}),
    "mrc_qp_init_attr": Layout(
        72,
        {
            "qp_context": 0,
            "send_cq": 8,
            "recv_cq": 16,
            "cap": 24,
            "sq_sig_all": 44,
            "pd": 48,
            "send_ops_flags": 56,
            "protocol_version": 64,
        },
    ),
    "mrc_qp_attr": Layout(
        176,
        {
            "mpr.mpr": 0,
            "mpr.mpr_dest": 1,
            "wimm.max_wimm": 2,
            "wimm.max_wimm_dest": 4,
            "timeout": 6,
            "profile.ev_profile_id": 8,
            "profile.cc_profile_id": 16,
            "retry.linear_cnt": 24,
            "retry.exp_cnt": 25,
            "qp_hint": 32,
            "cap": 40,
            "vendor_cfg": 44,
        },
    ),
    "mrc_async_event": Layout(16, {"element.cq": 0, "element.qp": 0, "element.port_num": 0, "event_type": 8}),
}
