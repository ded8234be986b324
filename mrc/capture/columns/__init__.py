# SPDX-License-Identifier: BSD-2-Clause
"""A capture as columns: the way to go through millions of packets. `read_columns(stream, name)` yields `Columns`, one a
run of up to some thousand packets; nothing of a run is kept when the next one comes, so memory is constant.

    for columns in read_columns(stream, "capture.pcap"):
        rows, psn = columns.values("bth", "psn")           # rows that have a BTH, their PSNs
        va = columns.column("reth", "va", default=0)       # one value a packet
        late = columns.frames.time_ns[rows][psn > 100]

Of each packet, in arrays with one element a packet (row i is packet number `first + i`):

    frames.data                     uint8: bytes of the whole run; no copy of what was read
    frames.start, .kept             offset of the packet's first byte (link layer) in it, bytes kept by the capture
    frames.wire_length, .link_type  bytes the packet had; LINKTYPE number
    frames.time_ns                  nanoseconds since the epoch, NO_TIME where the file has none
    frames.digits                   digits of a second that the file has (one number a run)
    stack                           index into `stacks`: which headers it has and at which offsets in the frame
    payload_length                  bytes of payload on the wire, padding apart
    icrc_at                         offset of the ICRC in the frame, -1 for none
    trimmed                         whether a switch trimmed it
    icrc                            RIGHT, WRONG or NOT_THERE (worked out on first use)

and `malformed`, row -> reason for those that are. `stacks` are the `Stack`s of this run, few as a rule; packets of one
stack have all headers at the same places.

Fields come by the names of wire.md section 13, when asked for: `values` gives them for the packets that have them,
`column` for all with a default, `addresses` and `segments` in two halves, `header` the raw bytes as a matrix, `ev` the
path, `has` whether a layer is there. Where a packet has a layer twice (two IPv6 headers, two VLAN tags), `occurrence`
chooses: 0 the outermost, LAST (default) the innermost, EVERY both. An index counts the headers of
the packet itself, not those of a tunnel around it. A packet reassembled from IP fragments is in the row of the fragment
that completes it; `frames` then has its bytes.

Packets that the quick walk (`stacks.py`) does not know go through `mrc.capture.walk` one by one and end up in the
same arrays; `walked(row)` gives any packet as that walk finds it.
"""

from mrc.capture.columns.batch import EVERY, LAST, Columns, read_columns
from mrc.capture.columns.icrcs import NOT_THERE, RIGHT, WRONG
from mrc.capture.columns.stacks import Stack
from mrc.capture.frames import NO_TIME

__all__ = ["EVERY", "LAST", "NOT_THERE", "NO_TIME", "RIGHT", "WRONG", "Columns", "Stack", "read_columns"]
