# SPDX-License-Identifier: BSD-2-Clause
"""The ABI of mrc_ctl.h: values and places against one table, in C, C++ and Python; the names of lib_mrc.so."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from c_prints import output, prints, told
from c_programs import needs_compiler

from mrc.capi import control_structures as structures
from mrc.capi.abi.control import LAYOUTS, VALUES
from mrc.capi.build import INCLUDE, LIB, MRC_SONAME
from mrc.control import query_version

pytestmark = needs_compiler
READ_BY_PYTHON: dict[str, Any] = {
    "mrc_ctl_device_attr": structures.DeviceAttr,
    "mrc_ctl_port_attr": structures.PortAttr,
    "mrc_ctl_ev_fmt_profile_attr": structures.FormatAttr,
    "mrc_ctl_ev": structures.Ev,
    "mrc_ctl_ev_field": structures.EvField,
    "mrc_ctl_ev_op_entry": structures.EvOpEntry,
    "mrc_ctl_ev_profile_attr": structures.EvAttr,
    "mrc_ctl_cc_profile_attr": structures.CcAttr,
    "mrc_ctl_cc_nscc_cfg": structures.NsccCfg,
    "mrc_ctl_ep_req": structures.EpReq,
    "mrc_ctl_ep_rsp": structures.EpRsp,
}
FUNCTIONS = {
    "query_device",
    "query_device_ex",
    "query_version",
    "query_port",
    "modify_port",
    "modify_ev_fmt_profile",
    "query_ev_fmt_profile",
    "modify_ev_profile",
    "query_ev_profile",
    "modify_cc_profile",
    "query_cc_profile",
    "create_ev_event_cq",
    "poll_ev_event",
    "ep_batch_send_wait",
}


@pytest.mark.parametrize("language", ["c", "c++"])
def test_values_and_places_are_those_of_the_table(language: str, tmp_path: Path) -> None:
    """MRC-API-01, MRC-API-02."""
    wanted = {f"{prefix}{name}": value for prefix, values in VALUES.items() for name, value in values.items()}
    for name, layout in LAYOUTS.items():
        wanted[f"sizeof(struct {name})"] = layout.size
        wanted |= {f"offsetof(struct {name}, {member})": place for member, place in layout.places.items()}
    assert len(wanted) > 120
    assert told(output(prints("<mrc_ctl.h>", wanted), tmp_path, f"-I{INCLUDE}", language=language)) == wanted


def test_a_program_of_1_0_0_has_smaller_events(tmp_path: Path) -> None:
    """And no query_device_ex."""
    old = f"-I{INCLUDE}", "-DMRC_CTL_API_VER_USED=MRC_CTL_API_VER(1,0,0)"
    printed = output(prints("<mrc_ctl.h>", ["sizeof(struct mrc_ctl_ev_event)"]), tmp_path, *old)
    assert told(printed) == {"sizeof(struct mrc_ctl_ev_event)": 48}


@pytest.mark.parametrize("name", READ_BY_PYTHON)
def test_python_reads_where_the_table_says(name: str) -> None:
    kind, layout = READ_BY_PYTHON[name], LAYOUTS[name]
    assert ctypes.sizeof(kind) == layout.size
    for member, place in layout.places.items():
        inside, at = kind, 0
        for part in member.split("."):
            at += getattr(inside, part).offset
            inside = dict(inside._fields_)[part]
        assert at == place, member


def test_the_library_has_every_function() -> None:
    shown = subprocess.run(["nm", "-D", str(LIB / MRC_SONAME)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r" T mrc_ctl_(\w+)", shown)) == FUNCTIONS


def test_the_library_and_python_have_the_same_versions() -> None:
    versions = [ctypes.c_uint32(7) for _ in range(4)]
    ctypes.CDLL(str(LIB / MRC_SONAME)).mrc_ctl_query_version(*map(ctypes.byref, versions))
    assert [each.value for each in versions] == [each.number for each in query_version()]
