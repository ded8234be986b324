# SPDX-License-Identifier: BSD-2-Clause
"""A program of mrc.h in Python: the hint that the QP of mrc.verbs behind its QP has, or has not."""

from __future__ import annotations

import ctypes
import struct

from mrc.capi import host
from mrc.capi.abi.layouts import MRC as LAYOUTS
from mrc.capi.abi.values import MRC as VALUES
from mrc.capi.build import LIB, MRC_OTHER_NAME, SONAME
from mrc.verbs import QP

verbs, mrc = ctypes.CDLL(str(LIB / SONAME)), ctypes.CDLL(str(LIB / MRC_OTHER_NAME))
HINT = VALUES["mrc_qp_attr_mask"]["HINT"]


def made(library: ctypes.CDLL, name: str, *arguments: object) -> ctypes.c_void_p:
    function = library[name]
    function.restype = ctypes.c_void_p
    pointer = function(*arguments)
    assert pointer, name
    return ctypes.c_void_p(pointer)


def filled(name: str, **members: int) -> ctypes.Array[ctypes.c_char]:
    """A structure, by the table of layouts: pointers and ints."""
    memory = ctypes.create_string_buffer(LAYOUTS[name].size)
    for member, value in members.items():
        struct.pack_into("P" if value > 1 << 31 else "i", memory, LAYOUTS[name].places[member], value)
    return memory


def to_init(qp: ctypes.c_void_p, hint: int) -> object:
    """Bring it to INIT with a hint, and return that of the QP of mrc.verbs."""
    vattr = ctypes.create_string_buffer(struct.pack("i", 1), 256)
    assert mrc.mrc_modify_qp(qp, vattr, 1, filled("mrc_qp_attr", qp_hint=hint), HINT) == 0
    [behind] = [each for each in host._kept[0][0]._objects.values() if isinstance(each, QP)]
    return behind.query().hint


devices = ctypes.cast(made(verbs, "ibv_get_device_list", None), ctypes.POINTER(ctypes.c_void_p))
context = made(verbs, "ibv_open_device", ctypes.c_void_p(devices[0]))
mrc_context = made(mrc, "mrc_create_context", context, None)
cq = made(mrc, "mrc_create_cq", mrc_context, 8, None, None, 0)
pd = made(verbs, "ibv_alloc_pd", context)
assert cq.value is not None
assert pd.value is not None
qp = made(
    mrc, "mrc_create_qp", mrc_context, filled("mrc_qp_init_attr", send_cq=cq.value, recv_cq=cq.value, pd=pd.value)
)
attributes = filled("mrc_qp_hint_attr", num_qps_per_peer=1, num_send_peers=2, num_remote_recv_peers=3)
hint = made(mrc, "mrc_create_qp_hint", mrc_context, attributes)
assert hint.value is not None
print(to_init(qp, hint.value))
print(to_init(qp, 0))
