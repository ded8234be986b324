# SPDX-License-Identifier: BSD-2-Clause
"""What compiled modules say of their attributes and functions (docs/contributing/compiled.md). hatch_declarations.py
reads it in their sources when the package is built; interpreted it says nothing.

An integer (`int`) is signed and has 64 bits, and `bool` and `float` are C's too. Types that Python has no name for:

    unsigned           an integer without sign, of 64 bits
    any_int            a number of Python, of any size
    pointer            64-bit words in memory, of `mrc.wire.octets.words`
    i64s, u8s          a view of integers in memory: of 64 bits, with sign; of bytes. So are i32s, u32s and u64s
    const_i64s         a view that is only read. So are const_u8s and const_i32s
    objects[T]         an attribute: a list of a compiled class. C uses an item in place: `self.at[slot].take()`

Who sees an attribute, and what a function needs:

    readonly[int]      an attribute that Python reads, although its name begins with an underscore
    public[int]        an attribute that Python writes, too
    python[None]       a function of Python
    with_gil[None]     a C function that takes the interpreter's lock when it is called without
    may_raise[None]    a C function that is called with the interpreter's lock, and may raise
    Subclassed         the base of a compiled class that others build on
"""

from __future__ import annotations

from typing import Annotated, TypeVar

_T = TypeVar("_T")

unsigned = int
any_int = int
pointer = memoryview
u8s = memoryview
i32s = memoryview
u32s = memoryview
i64s = memoryview
u64s = memoryview
const_u8s = memoryview
const_i32s = memoryview
const_i64s = memoryview
objects = list

readonly = Annotated[_T, "readonly"]
public = Annotated[_T, "public"]
python = Annotated[_T, "python"]
with_gil = Annotated[_T, "with gil"]
may_raise = Annotated[_T, "may raise"]


class Subclassed:
    """A compiled class that builds on none, but others on it."""

    __slots__ = ()
