# SPDX-License-Identifier: BSD-2-Clause
"""C programs over libibverbs: written, compiled, run, and what they wrote compared byte by byte."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from c_programs import EXAMPLES, PROGRAMS, compiled, installed, run_both, run_one, runs_programs
from loopback import Inside

from mrc.capi.build import LIB, SONAME, SOURCE
from mrc.endpoint.config import QpConfig

pytestmark = runs_programs
PORT = 18515


def test_the_example_writes_a_mebibyte_and_its_immediate(inside: Inside, tmp_path: Path) -> None:
    program = str(compiled(EXAMPLES / "write.c", tmp_path))
    done = run_both(inside, [program, "7001"], [program, "7001", "127.0.0.1"])
    assert [each.returncode for each in done] == [0, 0], done
    assert done[0].stdout == "wr_id 2: success\n1048576 bytes, immediate 0x1234, 0 wrong\n"
    assert done[1].stdout == "wr_id 1: success\n"
    assert done[0].stderr == done[1].stderr == ""


@pytest.mark.parametrize("example", ["mrc_watch", "mrc_write", "sweep", "write"])
def test_an_example_says_in_words_what_errno_does_not_tell(inside: Inside, tmp_path: Path, example: str) -> None:
    """How it is called, a host that nobody knows, a peer that ends."""
    program = str(compiled(EXAMPLES / f"{example}.c", tmp_path))
    alone = run_one(inside, program)
    assert (alone.returncode, alone.stderr.split(" ")[:2]) == (1, ["usage:", example])
    unknown = run_one(
        inside, program, *(["nowhere.invalid", "0x1:1"] if example == "mrc_watch" else ["7001", "nowhere.invalid"])
    )
    said = "PEER is an address" if example == "mrc_watch" else "nowhere.invalid: "
    assert (unknown.returncode, unknown.stderr[: len(said)]) == (1, said)
    assert "Success" not in unknown.stderr
    if example in ("mrc_write", "write"):
        ends = "import socket; socket.create_connection(('127.0.0.2', 7001)).recv(1000)"
        done = run_both(inside, [program, "7001"], [sys.executable, "-c", ends], port=7001)
        assert (done[0].returncode, done[0].stderr) == (1, "the peer ended\n")


CHECK_THEMSELVES = [
    "bursts",
    "closed",
    "destroys",
    "events",
    "forks",
    "garbage",
    "overrun",
    "plugin",
    "race",
    "refusals",
    "rings",
    "threads",
    "watch",
]


@pytest.mark.parametrize("program", CHECK_THEMSELVES)
def test_a_program_that_checks_by_itself(inside: Inside, directory: str, tmp_path: Path, program: str) -> None:
    """Each prints what it finds wrong and ends with 1 then: see the sources. `watch` holds MRC-API-04. In `directory`
    nobody else finds its endpoint: who looks at all of a machine holds a connection to each, a descriptor more."""
    done = run_one(inside, str(compiled(PROGRAMS / f"{program}.c", tmp_path)), MRC_CONTROL_DIR=directory)
    assert (done.returncode, done.stdout) == (0, ""), done


def test_a_burst_of_posts_leaves_an_endpoint_alone_that_dozes(inside: Inside, tmp_path: Path) -> None:
    done = run_one(inside, str(compiled(PROGRAMS / "wakes.c", tmp_path, f"-I{SOURCE}")))
    assert (done.returncode, done.stdout) == (0, ""), done


@pytest.mark.parametrize("processors", ["1", "2", "3"])
def test_who_polls_in_vain_sleeps_where_processors_are_few(inside: Inside, tmp_path: Path, processors: str) -> None:
    done = run_one(inside, str(compiled(PROGRAMS / "naps.c", tmp_path, f"-I{SOURCE}")), processors)
    assert (done.returncode, done.stdout) == (0, ""), done


@pytest.mark.parametrize("processors", ["1", "2", "3"])
def test_the_endpoint_keeps_off_the_processor_on_which_the_program_posts(
    inside: Inside, tmp_path: Path, processors: str
) -> None:
    done = run_one(inside, str(compiled(PROGRAMS / "keeps_off.c", tmp_path, f"-I{SOURCE}")), processors)
    assert (done.returncode, done.stdout) == (0, ""), done


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor alone")
def test_the_thread_of_a_real_endpoint_keeps_off_on_either_side(inside: Inside, tmp_path: Path) -> None:
    done = run_one(inside, str(compiled(PROGRAMS / "sides.c", tmp_path)))
    assert (done.returncode, done.stdout) == (0, ""), done


@pytest.mark.parametrize("way", ["return", "exit", "_exit", "quick_exit"])
def test_a_program_may_end_while_its_threads_post(inside: Inside, tmp_path: Path, way: str) -> None:
    program = str(compiled(PROGRAMS / "leaves.c", tmp_path))
    for _ in range(4):
        done = run_one(inside, program, way)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done


@pytest.mark.parametrize(
    "options", [[], ["-q", "4", "-n", "500"], ["-b", "-n", "500"], ["-s", "64", "-I", "64"], ["-q", "64", "-D", "2"]]
)
def test_an_unmodified_ib_write_bw_runs(inside: Inside, options: list[str]) -> None:
    """Debian's, with LD_LIBRARY_PATH alone."""
    tool = installed("ib_write_bw")
    command = [tool, "-p", str(PORT), *(options or ["-n", "500"])]
    done = run_both(inside, command, [*command, "127.0.0.1"], port=PORT)
    assert [each.returncode for each in done] == [0, 0], done


def test_ib_write_lat_and_ibv_devinfo_run(inside: Inside) -> None:
    command = [installed("ib_write_lat"), "-p", str(PORT), "-n", "500"]
    done = run_both(inside, command, [*command, "127.0.0.1"], port=PORT)
    assert [each.returncode for each in done] == [0, 0], done
    told = run_one(inside, installed("ibv_devinfo")).stdout
    assert "hca_id:\tmrc0" in told
    assert "PORT_ACTIVE" in told


def test_a_program_with_another_python_is_refused_with_a_line(inside: Inside, tmp_path: Path) -> None:
    """ENOSYS, no crash: a library that claims to be another Python is all there is."""
    other = tmp_path / "other.c"
    other.write_text('const char *Py_GetVersion(void) { return "2.7.18 (default)"; }\n')
    library = compiled(other, tmp_path, "-shared", "-fPIC")
    program = str(compiled(PROGRAMS / "opens.c", tmp_path))
    done = run_one(inside, program, LD_PRELOAD=str(library))
    assert done.stdout == "Function not implemented\n"
    assert done.stderr.startswith("mrc: this library works with Python 3.")
    assert done.stderr.count("\n") == 1
    missing = run_one(inside, program, MRC_LIBPYTHON="/nowhere/libpython.so")
    assert missing.stdout == "Function not implemented\n"
    assert missing.stderr.startswith("mrc: there is no libpython3.")


def test_a_process_that_is_python_already_is_joined(inside: Inside) -> None:
    """As NCCL's plug-ins find it: the library is loaded into a Python program."""
    program = (
        "import ctypes, sys\n"
        f"verbs = ctypes.CDLL({str(LIB / SONAME)!r}, mode=ctypes.RTLD_GLOBAL)\n"
        "verbs.ibv_get_device_list.restype = verbs.ibv_open_device.restype = ctypes.c_void_p\n"
        "devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))\n"
        "context = verbs.ibv_open_device(ctypes.c_void_p(devices[0]))\n"
        "assert 'mrc.capi.host' in sys.modules\n"
        "print(verbs.ibv_close_device(ctypes.c_void_p(context)))\n"
    )
    done = run_one(inside, sys.executable, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_qp_of_libibverbs_survives_more_trims_than_one_of_mrc_has_retries(inside: Inside) -> None:
    """A switch that trims a third of its packets trims one in a few million fifteen times: more than the usual retries.
    The endpoint in the program says what it has been told."""
    program = (
        "import ctypes, struct\n"
        f"verbs = ctypes.CDLL({str(LIB / SONAME)!r}, mode=ctypes.RTLD_GLOBAL)\n"
        "def call(name, *given, returns=ctypes.c_void_p):\n"
        "    function = getattr(verbs, name)\n"
        "    function.restype = returns\n"
        "    return function(*(ctypes.c_void_p(each) if isinstance(each, int) else each for each in given))\n"
        "device = ctypes.c_void_p.from_address(call('ibv_get_device_list', 0)).value\n"
        "context = call('ibv_open_device', device)\n"
        "pd, cq = call('ibv_alloc_pd', context), call('ibv_create_cq', context, 16, 0, 0, 0)\n"
        "qp = call('ibv_create_qp', pd, struct.pack('4P5I2i', 0, cq, cq, 0, 16, 16, 1, 1, 0, 2, 0))\n"
        "number, gid = ctypes.c_uint32.from_address(qp + 52).value, ctypes.create_string_buffer(16)\n"
        "call('ibv_query_gid', context, 1, 0, gid)\n"
        "def modify(state, mask, psn=0):\n"
        "    attr = struct.pack('9I20x', state, 0, 5, 0, 0, psn, psn, number, 0) + gid.raw + bytes(200)\n"
        "    return call('ibv_modify_qp', qp, attr, mask, returns=ctypes.c_int)\n"
        "assert [modify(1, 0x1), modify(2, 0x101181), modify(3, 0x10001)] == [0, 0, 0]\n"
        "from mrc.capi import host\n"
        "from mrc.verbs import QP\n"
        "[made] = [each for each in host._kept[0][0]._objects.values() if isinstance(each, QP)]\n"
        "print(made.query().exponential_retries, made.endpoint_qp.config.gives_up_after_ns)\n"
    )
    done = run_one(inside, sys.executable, "-c", program)
    # A silent peer is given up as soon as by the defaults: packets that are trimmed have more retries than timeouts.
    assert (done.returncode, done.stdout, done.stderr) == (0, f"24 {QpConfig().gives_up_after_ns}\n", "")
