# SPDX-License-Identifier: BSD-2-Clause
"""The ABI: values and places that C, Python and other libibverbs have to share."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from c_prints import output, prints, told
from c_programs import PROGRAMS, needs_compiler

from mrc.capi import calls
from mrc.capi.abi.values import VERBS
from mrc.capi.build import INCLUDE, LIB, SONAME, SOURCE, compiler
from mrc.endpoint import doorbells, work_rings

pytestmark = needs_compiler
OTHER_HEADER = Path("/usr/include/infiniband/verbs.h")
PREFIXES = {
    "ibv_qp_state": "IBV_QPS_",
    "ibv_qp_type": "IBV_QPT_",
    "ibv_access_flags": "IBV_ACCESS_",
    "ibv_wr_opcode": "IBV_WR_",
    "ibv_send_flags": "IBV_SEND_",
    "ibv_wc_status": "IBV_WC_",
    "ibv_wc_opcode": "IBV_WC_",
    "ibv_wc_flags": "IBV_WC_",
    "ibv_event_type": "IBV_EVENT_",
    "ibv_port_state": "IBV_PORT_",
    "ibv_mtu": "IBV_MTU_",
    "ibv_node_type": "IBV_NODE_",
    "ibv_transport_type": "IBV_TRANSPORT_",
    "ibv_qp_attr_mask": "IBV_QP_",
    "ibv_qp_create_send_ops_flags": "IBV_QP_EX_",
}


HEADERS = [INCLUDE, *([OTHER_HEADER.parents[1]] if OTHER_HEADER.exists() else [])]


@pytest.mark.parametrize("include", HEADERS, ids=str)
def test_the_table_has_the_values_of_the_headers(include: Path, tmp_path: Path) -> None:
    """MRC-API-01."""
    wanted = {f"{PREFIXES[kind]}{name}": value for kind, values in VERBS.items() for name, value in values.items()}
    assert told(output(prints("<infiniband/verbs.h>", wanted), tmp_path, f"-I{include}")) == wanted


def test_structures_have_the_layout_of_rdma_core(tmp_path: Path) -> None:
    """MRC-API-02. Sizes and places, printed by the same program with either header."""
    if not OTHER_HEADER.exists():
        pytest.skip("there is no other header: apt install libibverbs-dev")
    source = (PROGRAMS / "layout.c").read_text()
    ours, theirs = (output(source, tmp_path, f"-I{include}") for include in HEADERS)
    assert ours.splitlines() == theirs.splitlines()
    assert len(ours.splitlines()) > 60


def test_the_header_is_one_for_cplusplus(tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text("#include <infiniband/verbs.h>\nint main() { return IBV_WC_SUCCESS; }\n")
    command = [*compiler(), "-x", "c++", "-fsyntax-only", f"-I{INCLUDE}", str(tmp_path / "one.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cc1plus" in done.stderr:
        pytest.skip("there is no C++ compiler")
    assert done.returncode == 0, done.stderr


def test_rings_and_calls_are_in_the_same_places_on_both_sides(tmp_path: Path) -> None:
    """MRC-API-03."""
    names = (SOURCE / "rings.h").read_text()
    shared = {
        name: value
        for module in (work_rings, doorbells)
        for name, value in vars(module).items()
        if re.fullmatch(r"[A-Z][A-Z_]+", name) and isinstance(value, int) and re.search(rf"\b{name}\b", names)
    }
    assert len(shared) > 45
    wanted = shared | {"CALL_WORDS": calls.CALL_WORDS, "NOT_GIVEN": calls.NOT_GIVEN}
    wanted |= {f"CALL_{each.name}": int(each) for each in calls.Call}
    wanted |= {f"MODIFY_{each.name}": int(each) for each in calls.Modify}
    wanted |= {f"MRC_{each.name}": int(each) for each in calls.Mrc}
    wanted |= {f"CONTROL_{each.name}": int(each) for kind in (calls.Control, calls.ControlWord) for each in kind}
    assert told(output(prints('"calls.h"', wanted), tmp_path, f"-I{SOURCE}")) == wanted


def test_the_library_needs_libc_alone_and_has_the_versions() -> None:
    shown = subprocess.run(["readelf", "-dW", str(LIB / SONAME)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", shown)) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
    found = subprocess.run(
        ["readelf", "--dyn-syms", "-W", str(LIB / SONAME)], capture_output=True, text=True, check=True
    ).stdout
    for name in (
        "ibv_create_comp_channel@@IBVERBS_1.0",
        "ibv_open_device@@IBVERBS_1.1",
        "ibv_reg_mr_iova2@@IBVERBS_1.8",
        "ibv_set_ece@@IBVERBS_1.10",
        "_ibv_query_gid_ex@@IBVERBS_1.11",
        "ibv_reg_dmabuf_mr@@IBVERBS_1.12",
        "verbs_register_driver_34@@IBVERBS_PRIVATE_34",
    ):
        assert name in found
