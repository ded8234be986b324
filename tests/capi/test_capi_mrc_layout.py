# SPDX-License-Identifier: BSD-2-Clause
"""The ABI of mrc.h: values and places against the tables, in C and in C++, and the names that lib_mrc.so has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from c_prints import output, prints, told
from c_programs import needs_compiler

from mrc.capi.abi.layouts import MRC as LAYOUTS
from mrc.capi.abi.values import MRC as VALUES
from mrc.capi.build import INCLUDE, LIB, MRC_OTHER_NAME, MRC_SONAME

pytestmark = needs_compiler
PREFIXES = {
    "mrc_protocol_version": "MRC_PROTOCOL_",
    "mrc_device_cap": "MRC_DEVICE_CAP_",
    "mrc_qp_cap": "MRC_QP_CAP_",
    "mrc_qp_attr_mask": "MRC_QP_",
    "mrc_qp_hint_attr_mask": "MRC_QP_HINT_",
    "mrc_api": "MRC_",
}
# Those that programs which run over it look up, and cannot do without.
FUNCTIONS = [
    "query_device",
    "query_device_ex",
    "query_version",
    "create_context",
    "destroy_context",
    "create_comp_channel",
    "get_comp_channel_fd",
    "destroy_comp_channel",
    "create_cq",
    "poll_cq",
    "destroy_cq",
    "req_notify_cq",
    "get_cq_event",
    "ack_cq_events",
    "create_qp_hint",
    "destroy_qp_hint",
    "query_qp_hint",
    "modify_qp_hint",
    "create_qp",
    "destroy_qp",
    "query_qp",
    "modify_qp",
    "get_qpn",
    "post_recv",
    "post_send",
    "get_async_event",
    "ack_async_event",
]


@pytest.mark.parametrize("language", ["c", "c++"])
def test_values_and_places_are_those_of_the_tables(language: str, tmp_path: Path) -> None:
    """MRC-API-01, MRC-API-02."""
    wanted = {f"{PREFIXES[kind]}{name}": each for kind in PREFIXES for name, each in VALUES[kind].items()}
    for name, layout in LAYOUTS.items():
        wanted[f"sizeof(struct {name})"] = layout.size
        wanted |= {f"offsetof(struct {name}, {member})": place for member, place in layout.places.items()}
    assert len(wanted) > 70
    assert told(output(prints("<mrc.h>", wanted), tmp_path, f"-I{INCLUDE}", language=language)) == wanted


def test_a_program_names_the_version_that_it_is_written_for(tmp_path: Path) -> None:
    """1.0.0 has no mrc_query_device_ex. No program can be written for a version that is not there yet."""
    source = "#include <mrc.h>\nint main(void) { return !mrc_query_device_ex; }\n"
    (tmp_path / "one.c").write_text(source)

    def says(version: str) -> str:
        command = ["cc", "-fsyntax-only", f"-I{INCLUDE}", f"-DMRC_API_VER_USED=MRC_API_VER{version}"]
        return subprocess.run([*command, str(tmp_path / "one.c")], capture_output=True, text=True, check=False).stderr

    assert says("_LATEST") == says("(1,0,1)") == ""
    assert "mrc_query_device_ex" in says("(1,0,0)")
    assert "newer than this mrc.h" in says("(1,0,2)")


def test_the_library_needs_libc_alone_under_both_names() -> None:
    for name in (MRC_SONAME, MRC_OTHER_NAME):
        shown = subprocess.run(["readelf", "-dW", str(LIB / name)], capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r"NEEDED.*\[(.*)\]", shown)) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
        assert re.findall(r"SONAME.*\[(.*)\]", shown) == [MRC_SONAME]
        found = subprocess.run(
            ["readelf", "--dyn-syms", "-W", str(LIB / name)], capture_output=True, text=True, check=True
        ).stdout
        own = {line.split()[-1] for line in found.splitlines() if " GLOBAL " in line and " UND " not in line}
        own = {each for each in own if not each.startswith("mrc_ctl_")}
        assert own == {f"mrc_{each}" for each in FUNCTIONS}
