# SPDX-License-Identifier: BSD-2-Clause
"""Files that are no captures we read, by their first bytes: what they are, and what to do with them."""

from __future__ import annotations

# As many bytes as tell.
LOOKED_AT = 64

_CONVERT = "convert it: `editcap -F pcapng FILE new.pcapng`"
_EXPORT = "has no packets' bytes: export with `tshark -T json -x`, or give the capture it was made from"
_BY_MAGIC = {
    b"<?xml": f"is XML (PDML or PSML), which {_EXPORT}",
    b"<pdml": f"is PDML, which {_EXPORT}",
    b"<psml": f"is PSML, which {_EXPORT}",
    b"No.": f"is a packet list as text, which {_EXPORT}",
    b"# 1:": "is what `mrc craft` prints for people: `mrc craft ... -o -` writes a capture",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"7z\xbc\xaf\x27\x1c": "is a 7-Zip archive: unpack it first",
    b"\x1f\x9d": "is compressed with compress: unpack it first: `zcat FILE | mrc ... -`",
    b"LZIP": "is compressed with lzip: unpack it first: `lzip -dc FILE | mrc ... -`",
    b"\x02\x21\x4c\x18": "is compressed with an old format of lz4: unpack it first: `lz4 -dc FILE | mrc ... -`",
    b"snoop\0\0\0": f"is a snoop capture: {_CONVERT}",
    b"GMBU": f"is a capture of Microsoft Network Monitor: {_CONVERT}",
    b"RTSS": f"is a capture of Microsoft Network Monitor: {_CONVERT}",
    b"TRSNIFF data": f"is a Sniffer capture: {_CONVERT}",
    b"XCP\0": f"is a NetXRay capture: {_CONVERT}",
    b"\xac\x01\x00\x1c": f"is an IXIA capture: {_CONVERT}",
    b"\xab\x01\x00\x1c": f"is an IXIA capture: {_CONVERT}",
    b"\x1c\x00\x01\xac": f"is an IXIA capture: {_CONVERT}",
    b"\x1c\x00\x01\xab": f"is an IXIA capture: {_CONVERT}",
}


def named(head: bytes) -> str | None:
    """What a file is that begins so, as the end of a sentence about it; None where it is not known."""
    for magic, what in _BY_MAGIC.items():
        if head.startswith(magic):
            return what
    return None
