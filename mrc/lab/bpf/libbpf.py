# SPDX-License-Identifier: BSD-2-Clause
"""The few calls of libbpf that the lab needs, through ctypes: load an object, find what is loaded, read and write maps.

libbpf.so.1 comes with iproute2 on Debian. Every function returns open descriptors the caller has to close, and raises
SystemRefused; EbpfRefused, one of those, means that this process gets no eBPF at all here.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from mrc.errors import SystemRefused

ADVICE = "needs eBPF, and so root outside any user namespace (CAP_BPF and CAP_NET_ADMIN)"

# Read or write a map's value under the lock inside it.
_BPF_F_LOCK = 4
_NAME_BYTES = 16
_MOST_MAPS = 8
_u32, _u64, _int, _pointer, _text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p


class EbpfRefused(SystemRefused):
    """This process may not use eBPF, or libbpf is missing."""


class _ProgramInfo(ctypes.Structure):
    """The beginning of struct bpf_prog_info (linux/bpf.h)."""

    _fields_ = (
        ("type", _u32),
        ("id", _u32),
        ("tag", ctypes.c_uint8 * 8),
        ("jited_prog_len", _u32),
        ("xlated_prog_len", _u32),
        ("jited_prog_insns", _u64),
        ("xlated_prog_insns", _u64),
        ("load_time", _u64),
        ("created_by_uid", _u32),
        ("nr_map_ids", _u32),
        ("map_ids", _u64),
        ("name", ctypes.c_char * _NAME_BYTES),
    )


class _MapInfo(ctypes.Structure):
    """The beginning of struct bpf_map_info (linux/bpf.h)."""

    _fields_ = (
        ("type", _u32),
        ("id", _u32),
        ("key_size", _u32),
        ("value_size", _u32),
        ("max_entries", _u32),
        ("map_flags", _u32),
        ("name", ctypes.c_char * _NAME_BYTES),
    )


class TestRunOptions(ctypes.Structure):
    """struct bpf_test_run_opts (bpf/bpf.h)."""

    __test__ = False
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", _pointer),
        ("data_out", _pointer),
        ("data_size_in", _u32),
        ("data_size_out", _u32),
        ("ctx_in", _pointer),
        ("ctx_out", _pointer),
        ("ctx_size_in", _u32),
        ("ctx_size_out", _u32),
        ("retval", _u32),
        ("repeat", _int),
        ("duration", _u32),
        ("flags", _u32),
        ("cpu", _u32),
        ("batch_size", _u32),
    )


@cache
def _library() -> ctypes.CDLL:
    try:
        found = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise EbpfRefused(f"libbpf.so.1 is missing: install the package libbpf1 (this {ADVICE})") from None
    for name, result, arguments in (
        ("libbpf_set_print", _pointer, (_pointer,)),
        ("bpf_object__open_file", _pointer, (_text, _pointer)),
        ("bpf_object__load", _int, (_pointer,)),
        ("bpf_object__close", None, (_pointer,)),
        ("bpf_object__next_program", _pointer, (_pointer, _pointer)),
        ("bpf_object__find_map_by_name", _pointer, (_pointer, _text)),
        ("bpf_map__set_max_entries", _int, (_pointer, _u32)),
        ("bpf_program__fd", _int, (_pointer,)),
        ("bpf_prog_get_fd_by_id", _int, (_u32,)),
        ("bpf_map_get_fd_by_id", _int, (_u32,)),
        ("bpf_obj_get_info_by_fd", _int, (_int, _pointer, ctypes.POINTER(_u32))),
        ("bpf_map_lookup_elem_flags", _int, (_int, _pointer, _pointer, _u64)),
        ("bpf_map_update_elem", _int, (_int, _pointer, _pointer, _u64)),
        ("bpf_prog_test_run_opts", _int, (_int, ctypes.POINTER(TestRunOptions))),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    # It would explain refusals on stderr at length; the error raised here says what to do.
    found.libbpf_set_print(None)
    return found


def _refused(what: str, number: int) -> SystemRefused:
    if number in (errno.EPERM, errno.ENOSYS):
        return EbpfRefused(number, f"cannot {what}: {os.strerror(number)}: this {ADVICE}")
    return SystemRefused(number, f"cannot {what}: {os.strerror(number)}")


def _checked(what: str, result: int) -> int:
    if result < 0:
        raise _refused(what, -result)
    return result


def load(path: Path, entries: Mapping[str, int] | None = None) -> int:
    """Load the one program of an object file, with maps of its own; a descriptor of it, which keeps both alive.

    `entries`: how many entries the maps of these names have, where that is not what the object says.
    """
    library = _library()
    handle = library.bpf_object__open_file(os.fsencode(path), None)
    if not handle:
        raise SystemRefused(f"cannot read the eBPF object {path}: {os.strerror(ctypes.get_errno())}")
    try:
        for name, most in (entries or {}).items():
            found = library.bpf_object__find_map_by_name(handle, name.encode())
            _checked(f"size the eBPF map {name}", library.bpf_map__set_max_entries(found, most))
        _checked("load an eBPF program", library.bpf_object__load(handle))
        program = library.bpf_object__next_program(handle, None)
        return os.dup(_checked("load an eBPF program", library.bpf_program__fd(program)))
    finally:
        library.bpf_object__close(handle)


def program_by_id(program_id: int) -> int:
    """A descriptor of the loaded program of that number."""
    return _checked(f"open eBPF program {program_id}", _library().bpf_prog_get_fd_by_id(program_id))


def program_id(program: int) -> int:
    """The number of the program behind a descriptor."""
    return int(_program_info(program).id)


def _program_info(program: int, map_ids: ctypes.Array[ctypes.c_uint32] | None = None) -> _ProgramInfo:
    info = _ProgramInfo()
    if map_ids is not None:
        info.nr_map_ids, info.map_ids = len(map_ids), ctypes.addressof(map_ids)
    size = _u32(ctypes.sizeof(info))
    result = _library().bpf_obj_get_info_by_fd(program, ctypes.byref(info), ctypes.byref(size))
    _checked("read an eBPF program", result)
    return info


def maps_of(program: int, names: Sequence[str]) -> tuple[int, ...]:
    """Descriptors of the maps of these names that the program behind the descriptor `program` uses."""
    numbers = (_u32 * _MOST_MAPS)()
    info = _program_info(program, numbers)
    found: dict[str, int] = {}
    try:
        for number in numbers[: min(info.nr_map_ids, _MOST_MAPS)]:
            descriptor = _checked(f"open eBPF map {number}", _library().bpf_map_get_fd_by_id(number))
            name = _map_name(descriptor)
            if name in names and name not in found:
                found[name] = descriptor
            else:
                os.close(descriptor)
        if missing := set(names) - set(found):
            raise SystemRefused(f"an eBPF program in the lab has no map {', '.join(missing)}: `mrc lab down` ends it")
    except BaseException:
        for descriptor in found.values():
            os.close(descriptor)
        raise
    return tuple(found[name] for name in names)


def _map_name(descriptor: int) -> str:
    info = _MapInfo()
    size = _u32(ctypes.sizeof(info))
    _checked("read an eBPF map", _library().bpf_obj_get_info_by_fd(descriptor, ctypes.byref(info), ctypes.byref(size)))
    return bytes(info.name).decode()


def read_map(descriptor: int, size: int, index: int = 0, *, locked: bool = False) -> bytes:
    """The value of an array map at `index`, of `size` bytes; `locked` takes the lock inside it."""
    value = ctypes.create_string_buffer(size)
    result = _library().bpf_map_lookup_elem_flags(
        descriptor, ctypes.byref(_u32(index)), value, _BPF_F_LOCK if locked else 0
    )
    _checked("read an eBPF map", result)
    return value.raw


def write_map(descriptor: int, value: bytes, index: int = 0) -> None:
    """Replace the value of an array map at `index`."""
    result = _library().bpf_map_update_elem(descriptor, ctypes.byref(_u32(index)), value, 0)
    _checked("write an eBPF map", result)


def test_run(program: int, options: TestRunOptions) -> None:
    """BPF_PROG_TEST_RUN: run a program on a packet that is on no network."""
    options.sz = ctypes.sizeof(options)
    _checked("run an eBPF program", _library().bpf_prog_test_run_opts(program, ctypes.byref(options)))


test_run.__test__ = False  # type: ignore[attr-defined]
