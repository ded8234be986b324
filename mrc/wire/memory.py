# SPDX-License-Identifier: BSD-2-Clause
"""Where the application's memory lies: packets name their payload by its address, and nobody copies it."""

from __future__ import annotations

import ctypes
from typing import Any

_SIMPLE = 0  # PyBUF_SIMPLE: one run of bytes


class _Buffer(ctypes.Structure):
    """Py_buffer, what Python's buffer protocol fills in."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]
_release.restype = None


def address_of(buffer: Any) -> int:
    """The address of the first byte of a contiguous buffer, 0 for an empty one. It stays while something holds it.

    Raises BufferError for a buffer with gaps.
    """
    found = _Buffer()
    _get_buffer(buffer, found, _SIMPLE)
    address = found.buf if found.len else 0
    _release(found)
    return int(address or 0)
