# SPDX-License-Identifier: BSD-2-Clause
"""A packet in words: the table of what each header adds to the one line that a packet gets.

Everything that words packets for people takes it from here: `mrc dissect` for runs of packets, the summaries of the
Scapy layers for one, and Wireshark, whose Lua functions are written from the table (`mrc.capture.wireshark.words`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.names import FIELD_NAMES
from mrc.wire.psn import PSN_MASK

_VALUE = re.compile(r"\{([\w+]+):?([^{}]*)\}")
_CONDITION = re.compile(r"(not )?(\w+)(?: (==|<|>=) (0x[0-9a-f]+|\d+))?")
_LITERAL = re.compile(r"[^\"'\\{}%]*")


@record(frozen=True, slots=True)
class Value:
    """A number, or text, as it stands in a phrase: `form` is "name", "psn", or a format of Python's."""

    fields: tuple[str, ...]
    form: str


@record(frozen=True, slots=True)
class Condition:
    """A field compared with a number; `operator` is one that Python and Lua have in common, or "!="."""

    field: str
    operator: str
    number: int


@record(frozen=True, slots=True)
class Phrase:
    """What is said of a header when `when` holds of its fields; always, where it is empty.

    `text` has fields in braces, with Python's format behind a colon: `{va:x}`. Two formats are our own: `{reason:name}`
    is what `mrc.wire.names.FIELD_NAMES` calls the number, `{cack_psn+ack_psn_offset:psn}` a PSN at an offset from
    another. `when` is a field that has to differ from 0 (`rqmsn`), or a comparison: `not pr`, `syndrome < 0x20`.
    """

    text: str
    when: str = ""

    def parts(self) -> Iterator[str | Value]:
        """The text as literals and values in their order. Raises CallerError for what neither language can quote."""
        at = 0
        for match in _VALUE.finditer(self.text):
            yield self._literal(self.text[at : match.start()])
            yield Value(tuple(match[1].split("+")), match[2])
            at = match.end()
        yield self._literal(self.text[at:])

    def condition(self) -> Condition | None:
        """None where the phrase is always said. Raises CallerError for a condition of another form."""
        if not self.when:
            return None
        match = _CONDITION.fullmatch(self.when)
        if match is None or (match[1] and match[3]):
            raise CallerError(f"a phrase cannot depend on {self.when!r}")
        return Condition(match[2], match[3] or ("==" if match[1] else "!="), int(match[4] or "0", 0))

    def _literal(self, text: str) -> str:
        if not _LITERAL.fullmatch(text):
            raise CallerError(f"a phrase cannot have {text!r} in it")
        return text


# The transport headers, named as in wire.md section 13, then what else there is to say of a packet.
WORDS: dict[str, tuple[Phrase, ...]] = {
    "bth": (
        Phrase("{opcode:name}"),
        Phrase("QP=0x{dqp:06x}"),
        Phrase("PSN={psn}"),
        Phrase("[AckReq]", "ackreq"),
        Phrase("[rtx]", "rtx"),
    ),
    "meth": (Phrase("MSN={msn}"), Phrase("RQMSN={rqmsn}", "rqmsn")),
    "tseth": (Phrase("TS={tx_timestamp}"),),
    "reth": (Phrase("VA=0x{va:x}"), Phrase("Len={dmalen}")),
    "immdt": (Phrase("Imm=0x{data:08x}"),),
    "aeth": (
        Phrase("ACK", "syndrome < 0x20"),
        Phrase("{syndrome:name}", "syndrome >= 0x20"),
        Phrase("MSN={msn}"),
    ),
    "seth": (
        Phrase("cack={cack_psn}"),
        Phrase("ack={cack_psn+ack_psn_offset:psn}", "not pr"),
        Phrase("probe_id={probe_id}", "pr"),
        Phrase("EV=0x{entropy:08x}"),
        Phrase("[{m:name}]", "m"),
        Phrase("bitmap={sack_offset:+d}:0x{bitmap:x}", "bitmap"),
    ),
    "cc_state": (Phrase("ooo={ooo_count}", "ooo_count"),),
    "neth": (Phrase("{reason:name}"), Phrase("nack={nack_psn}"), Phrase("EV=0x{entropy:08x}")),
    "peth": (Phrase("probe_id={probe_id}"),),
    "erth": (Phrase("{op:name}"), Phrase("ports=0x{port_status_mask:x}", "op == 0")),
    "eeth": (Phrase("{op:name}"),),
    "atomiceth": (Phrase("VA=0x{va:x}"),),
    "atomicacketh": (Phrase("Orig={orig}"),),
    "deth": (Phrase("SQP=0x{sqpn:06x}"),),
    "ieth": (Phrase("Invalidate=0x{rkey:08x}"),),
    "rdeth": (Phrase("EEC=0x{eec:06x}"),),
    "xrceth": (Phrase("SRQ=0x{xrcsrq:06x}"),),
    # length: bytes of payload, padding apart; wrong: whether the ICRC is; malformed: the reason, or nothing
    "payload": (Phrase("Payload={length}", "length"),),
    "icrc": (Phrase("[ICRC wrong]", "wrong"),),
    "verdict": (Phrase("[trimmed]", "trimmed"), Phrase("[malformed: {malformed:s}]", "malformed")),
}


def fields_of(header: str) -> tuple[str, ...]:
    """The fields that the words of a header need, each once."""
    found: dict[str, None] = {}
    for phrase in WORDS[header]:
        condition = phrase.condition()
        if condition is not None:
            found[condition.field] = None
        for part in phrase.parts():
            if isinstance(part, Value):
                found |= dict.fromkeys(part.fields)
    return tuple(found)


def in_words(headers: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """One packet, given as its headers with their fields; a field that is missing counts as 0."""
    columns = [[fields.get(name, 0)] for header, fields in headers for name in fields_of(header)]
    return writer(tuple(header for header, _ in headers))(columns)[0]


@lru_cache(1024)
def writer(headers: tuple[str, ...]) -> Callable[[Sequence[Sequence[Any]]], list[str]]:
    """A function that words packets which all have these headers.

    It takes a column of values for each of the `fields_of` each header, in this order. It
    is compiled from the table as one f-string: captures have millions of packets.
    """
    known: dict[str, Any] = {}
    variables: list[str] = []
    phrases: list[str] = []
    for header in headers:
        names = {field: f"v{len(variables) + number}" for number, field in enumerate(fields_of(header))}
        variables += names.values()
        phrases += (_as_python(header, phrase, names, known) for phrase in WORDS[header])
    body = f'f"{"".join(phrases)[1:]}"' if phrases[0].startswith(" ") else f'f"{"".join(phrases)}"[1:]'
    made = eval(f"lambda columns: [{body} for {', '.join(variables)}, in zip(*columns, strict=True)]", known)
    return cast("Callable[[Sequence[Sequence[Any]]], list[str]]", made)


def _as_python(header: str, phrase: Phrase, names: Mapping[str, str], known: dict[str, Any]) -> str:
    """A phrase as a part of an f-string, with a space before it. `known` gets what it looks names up in."""
    said = " "
    for part in phrase.parts():
        if isinstance(part, str):
            said += part
        elif part.form == "name":
            known[f"{names[part.fields[0]]}_names"] = FIELD_NAMES[header, part.fields[0]]
            said += f"{{{names[part.fields[0]]}_names[{names[part.fields[0]]}]}}"
        elif part.form == "psn":
            said += f"{{{' + '.join(names[field] for field in part.fields)} & {PSN_MASK}}}"
        else:
            said += f"{{{names[part.fields[0]]}{part.form and ':'}{part.form}}}"
    condition = phrase.condition()
    if condition is None:
        return said
    value = names[condition.field]
    if condition.operator == "!=" and not condition.number:
        holds = value
    else:
        holds = f"{value} {condition.operator} {condition.number}"
    return f"{{f'{said}' if {holds} else ''}}"
