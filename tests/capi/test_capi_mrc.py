# SPDX-License-Identifier: BSD-2-Clause
"""C programs over mrc.h: what they write arrives, and what they may not do is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from c_programs import EXAMPLES, PROGRAMS, compiled, run_both, run_one, runs_programs
from loopback import Inside

from mrc.capi.build import LIB, MRC_OTHER_NAME, MRC_SONAME, SONAME, SOURCE

pytestmark = runs_programs


@pytest.mark.parametrize("program", ["mrc_events", "mrc_garbage", "mrc_pointers", "mrc_states", "mrc_writes"])
def test_a_program_of_mrc_that_checks_by_itself(inside: Inside, tmp_path: Path, program: str) -> None:
    """Each prints what it finds wrong and ends with 1 then: see the sources."""
    done = run_one(inside, str(compiled(PROGRAMS / f"{program}.c", tmp_path)))
    assert (done.returncode, done.stdout) == (0, ""), done


def test_the_example_of_mrc_h_writes_a_mebibyte_and_its_immediate(inside: Inside, tmp_path: Path) -> None:
    program = str(compiled(EXAMPLES / "mrc_write.c", tmp_path))
    done = run_both(inside, [program, "7001"], [program, "7001", "127.0.0.1"])
    assert [each.returncode for each in done] == [0, 0], done
    assert done[0].stdout == "wr_id 2: success\n1048576 bytes, immediate 0x1234, 0 wrong\n"
    assert done[1].stdout == "wr_id 1: success\n"
    assert done[0].stderr == done[1].stderr == ""


def test_a_benchmark_over_ordinary_udp_is_exact(inside: Inside, tmp_path: Path) -> None:
    program = str(compiled(PROGRAMS / "mrc_bench.c", tmp_path, "-O2"))
    received, sent = run_both(inside, [program, "7001"], [program, "7001", "127.0.0.1", str(1 << 20), "100"])
    assert (received.returncode, received.stdout, received.stderr) == (0, "0 bytes wrong\n", "")
    assert (sent.returncode, sent.stderr) == (0, "")
    # That of 64 writes, and that of the last.
    assert sent.stdout.startswith("1 bytes, 100 writes, 2 completions\n2 bytes, 100 writes, 2 completions\n")
    assert sent.stdout.endswith("1048576 bytes, 100 writes, 2 completions\n0 bytes wrong\n")


def test_a_program_may_have_another_libibverbs_before_it(inside: Inside, tmp_path: Path) -> None:
    """A verbs shim has the functions of the library under the same names. What the library calls is its own."""
    named = (f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={SOURCE / 'libibverbs.map'}")
    layer = compiled(PROGRAMS / "mrc_layer.c", tmp_path, "-shared", "-fPIC", *named)
    layer.rename(tmp_path / SONAME)
    program = compiled(PROGRAMS / "mrc_writes.c", tmp_path)
    found = {"LD_LIBRARY_PATH": f"{tmp_path}:{LIB}", "LAYER_OVER": str(LIB / SONAME)}
    done = run_one(inside, str(program), **found)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_its_own_libibverbs_beside_it_the_library_refuses(inside: Inside, tmp_path: Path) -> None:
    """And says what is missing. The program's own libibverbs is none."""
    program = compiled(PROGRAMS / "mrc_alone.c", tmp_path)
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / MRC_SONAME).write_bytes((LIB / MRC_SONAME).read_bytes())
    done = run_one(inside, str(program), LD_LIBRARY_PATH=f"{alone}:{LIB}")
    assert (done.returncode, done.stdout) == (0, ""), done
    assert done.stderr == f"mrc: lib_mrc.so needs {alone / SONAME}, and the one of its own build: it cannot be loaded\n"


def test_a_process_that_is_python_already_finds_it_under_its_other_name(inside: Inside) -> None:
    """As plug-ins of collectives libraries do: they look functions up in a library that they load."""
    program = (
        "import ctypes\n"
        f"verbs, mrc = ctypes.CDLL({str(LIB / SONAME)!r}), ctypes.CDLL({str(LIB / MRC_OTHER_NAME)!r})\n"
        "verbs.ibv_get_device_list.restype = verbs.ibv_open_device.restype = ctypes.c_void_p\n"
        "devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))\n"
        "context = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0])))\n"
        "attributes, supported = (ctypes.c_uint32 * 5)(), ctypes.c_int(-1)\n"
        "print(mrc.mrc_query_device(context, attributes, ctypes.byref(supported)), supported.value, attributes[0])\n"
    )
    done = run_one(inside, sys.executable, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 1\n", "")


def test_a_hint_reaches_the_qp_of_the_verbs_api(inside: Inside) -> None:
    done = run_one(inside, sys.executable, str(PROGRAMS / "mrc_hints.py"))
    assert (done.returncode, done.stderr) == (0, "")
    counts = [each.split()[-1] for each in done.stdout.splitlines() if " : " in each]
    assert counts == ["1", "2", "3", "0", "0", "0"], done.stdout
