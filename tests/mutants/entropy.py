# SPDX-License-Identifier: BSD-2-Clause
"""EVs in the wrong bits of a packet, and others than the fields of a profile say."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.conformance.setup import Setup
from mrc.conformance.targets.in_process_paths import InProcessPaths
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.responder.request_checks import Answer, Reflector
from mrc.errors import CallerError
from mrc.wire.entropy import EvField
from mrc.wire.fields import COMMON
from mrc.wire.opcodes import REQUEST_OPCODES
from mrc.wire.received_batch import ReceivedPacket
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate
from mutants.mutant import mutant
from mutants.packets import _Repacked

_LABEL = np.uint32(0xFFFFF)
_HALF = np.uint32(0xFFFF)


class _Misread(Reflector):
    """`entropy` is what becomes of source port and flow label of a packet that is answered."""

    def entropy(self, port: int, label: int) -> int:
        raise NotImplementedError

    def _common(self, answer: Answer, packet: ReceivedPacket) -> None:
        super()._common(answer, packet)
        answer.entropy = self.entropy(packet.sport, packet.label)


@mutant("MRC-EV-01")
class TheTopOfTheLabelIsRead(_Misread):
    """The high half of an EV is looked for in the upper 16 bits of the flow label."""

    def entropy(self, port: int, label: int) -> int:
        return label >> 4 << 16 | port


@mutant("MRC-EV-02")
class HalvesAreReadAsOnThePage(_Misread):
    """The low half of a received EV is in the source port, whatever the switch says."""

    def entropy(self, port: int, label: int) -> int:
        return (label & 0xFFFF) << 16 | port


@mutant("MRC-EV-02", "MRC-EV-01")
class HalvesAreReadTheOtherWay(_Misread):
    """The low half of a received EV is taken from the flow label, whatever the switch says."""

    def entropy(self, port: int, label: int) -> int:
        return port << 16 | label & 0xFFFF


@mutant("MRC-EV-03")
class TheMissingHalfIsTheOtherAgain(_Misread):
    """Where the flow label has no half of an EV, both are taken from the source port."""

    def entropy(self, port: int, label: int) -> int:
        return (label & 0xFFFF or port) << 16 | port


@mutant("MRC-EV-04", "MRC-EV-01")
class OnlyTheSourcePortIsRead(_Misread):
    """The flow label plays no part in the EV that a SACK names."""

    def entropy(self, port: int, label: int) -> int:
        return port


class _RequestsMiscarried(_Repacked):
    """`carry` changes source port and IP word of requests, from the flow label's 20 bits on."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        rows = np.flatnonzero(np.isin(fields["opcode"], list(REQUEST_OPCODES)))
        port, word = self.carry(fields["udp_sport"][rows], fields["ip_word"][rows])
        fields["udp_sport"][rows], fields["ip_word"][rows] = port, word

    def carry(self, port: Any, word: Any) -> tuple[Any, Any]:
        raise NotImplementedError


@mutant("MRC-EV-01")
class TheTopOfTheLabelIsWritten(_RequestsMiscarried):
    """The high half of an EV is sent in the upper 16 bits of the flow label."""

    def carry(self, port: Any, word: Any) -> tuple[Any, Any]:
        return port, word & ~_LABEL | (word & _HALF) << np.uint32(4)


@mutant("MRC-EV-02", "MRC-EV-01")
class HalvesAreWrittenTheOtherWay(_RequestsMiscarried):
    """The halves of an EV are sent in each other's place."""

    def carry(self, port: Any, word: Any) -> tuple[Any, Any]:
        return (word & _HALF).astype(np.uint16), word & ~_HALF | port.astype(np.uint32)


@mutant("MRC-EV-04")
class RequestsHaveNoFlowLabel(_RequestsMiscarried):
    """The flow label of requests is 0."""

    def carry(self, port: Any, word: Any) -> tuple[Any, Any]:
        return port, word & ~_LABEL


@mutant("MRC-EV-05", "MRC-EV-07")
class TheSourcePortIsAlwaysTheSame(_RequestsMiscarried):
    """All requests leave from UDP port 49152, and their EVs are in the flow label."""

    def carry(self, port: Any, word: Any) -> tuple[Any, Any]:
        return np.full_like(port, 49152), word & ~_HALF | port.astype(np.uint32)


@mutant("MRC-EV-06", "MRC-EV-07", "MRC-EV-09")
class TheFirstHopIsAtTheBottom(EvFormat):
    """The first field of a structured EV is the least significant."""

    def fit(self, fields: tuple[EvField, ...]) -> tuple[EvField, ...]:
        return tuple(reversed(super().fit(fields)))


@mutant("MRC-EV-09")
class FieldsAreNotFilledUp(EvFormat):
    """Fields follow each other without the zeros that fill them up to the format's widths."""

    def fit(self, fields: tuple[EvField, ...]) -> tuple[EvField, ...]:
        super().fit(fields)
        return fields


@mutant("MRC-EV-09", "MRC-EV-12")
class MasksAreFilledFromBelow(EvField):
    """The most significant of the generated bits goes to the least significant bit of the mask."""

    def place(self, bits: int) -> int:
        places = [position for position in range(self.width) if self.mask >> position & 1]
        value = self.init_val & ~self.mask
        for number, position in enumerate(places):
            value |= (bits >> len(places) - 1 - number & 1) << position
        return value


@mutant("MRC-EV-09")
class InitValShinesThrough(EvField):
    """Generated bits are added to those that init_val has in their places."""

    def place(self, bits: int) -> int:
        return super().place(bits) | self.init_val


@mutant("MRC-EV-12", "MRC-EV-09", "MRC-EV-10", "MRC-EV-11")
class InitValIsForgotten(EvField):
    """Fields start from 0 instead of from init_val."""

    def place(self, bits: int) -> int:
        return super().place(bits) & self.mask


@mutant("MRC-EV-10")
class EveryBitIsGenerated(EvField):
    """A field of which a part is generated has a bit of the EV in each of its places."""

    @property
    def generated_bits(self) -> int:
        return self.width if self.mask else 0

    def place(self, bits: int) -> int:
        return bits if self.mask else self.init_val


@mutant("MRC-EV-11")
class BoundsAreNotLookedAt(EvField):
    """min_val and max_val bound nothing."""

    def __post_init__(self) -> None:
        EvField.__post_init__(self)
        object.__setattr__(self, "min_val", 0)
        object.__setattr__(self, "max_val", None)


@mutant("MRC-EV-11")
class MaxValIsOneTooHigh(EvField):
    """The generated bits may be one more than max_val where the mask has room for it."""

    @property
    def greatest(self) -> int:
        most = (1 << self.generated_bits) - 1
        return most if self.max_val is None else min(self.max_val + 1, most)


@mutant("MRC-EV-07")
class LongStructuresAreReplaced(InProcessPaths):
    """A profile whose EVs do not fit is taken, and EVs of the target's own choice are used."""

    def _generated(self, setup: Setup) -> list[list[Path]]:
        try:
            return super()._generated(setup)
        except CallerError:
            return list(map(self._plain, self.pairs))


@mutant("MRC-EV-13")
class WidthsAreNotLimited(EvFormat):
    """A format may be as wide as it likes."""

    @property
    def limit(self) -> int:
        return 1 << 16


@mutant("MRC-EV-13")
class AnSrhMakesNoRoom(EvFormat):
    """A format with SRH may be as wide as one without."""

    @property
    def limit(self) -> int:
        return min(super().limit, 128)


@mutant("MRC-EV-08")
class NeighboursShareAStack(UsidTemplate):
    """EVs of uplinks 0 and 1, 2 and 3, ... have one outer destination."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        return super().usids(plane, uplink & ~1)


@mutant("MRC-EV-08")
class NoSrhIsMade(InProcessPaths):
    """Packets that are to have a segment routing header go without."""

    def routing_header(self, destination: int) -> tuple[int, bytes]:
        return destination, b""
