"""What callers may pass: numpy's arrays and whatever shares its memory with one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.errors import CallerError

Bytes = NDArray[np.uint8]


def array_over(given: Any, name: str, *, written: bool) -> NDArray[Any]:
    """`given` as an array of the same memory: a numpy array, a buffer, what has `__array_interface__` or DLPack.

    Raises CallerError for anything else, for gaps between its values, and for one that is read-only where it is to be
    `written`.
    """
    array = _shared(given, name)
    if not array.flags.c_contiguous:
        raise CallerError(
            f"{name} is not contiguous (shape {array.shape}, strides {array.strides}): pass a contiguous one, for example "
            f"numpy.ascontiguousarray({name}), and copy the result back if you need it there"
        )
    if array.dtype.hasobject:
        raise CallerError(f"{name} holds Python objects ({array.dtype}), which cannot be sent: pass numbers")
    if written and not array.flags.writeable:
        raise CallerError(f"{name} is read-only, and the result goes there: pass a writable array")
    return array


def _shared(given: Any, name: str) -> NDArray[Any]:
    if isinstance(given, np.ndarray):
        return given
    try:
        if isinstance(given, (memoryview, bytearray, bytes)) or hasattr(given, "__array_interface__"):
            return np.asarray(given)
        if hasattr(given, "__dlpack__"):
            return np.from_dlpack(given)
        return np.asarray(memoryview(given))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise CallerError(
            f"{name} must be a numpy array, a buffer, or something with __array_interface__ or __dlpack__, got "
            f"{type(given).__name__}: {error}"
        ) from None


def bytes_of(array: NDArray[Any]) -> Bytes:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8)
