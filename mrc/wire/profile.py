# SPDX-License-Identifier: BSD-2-Clause
"""Every bit of the wire on which the sources disagree or are silent, as a named switch (grade C in wire.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mrc.errors import CallerError
from mrc.records import record
from mrc.untrusted import NotJson, json_file, parse_json, quoted

_MOST_BYTES = 1 << 20
# The modes of a network that may each have another order of the EV's halves.
_EV_MODES = ("udp", "stev", "srv6")

__all__ = ["DEFAULT_WIRE_PROFILE", "MAY_DIFFER", "WireProfile"]


@record(frozen=True, slots=True)
class WireProfile:
    """The choices this project makes where wire.md grades a fact C. The defaults are wire.md's.

    Pass a changed profile to an endpoint, or `--wire-profile FILE|key=value` on the command line, to talk to a
    peer that chose otherwise. An endpoint refuses a switch it cannot follow.
    """

    # UDP destination port. Alternative: 4971, printed by four sources on MRC; RoCEv2 has 4791 (section 1).
    udp_port: int = 4791
    # Ports accepted on receipt (section 1).
    accepted_udp_ports: tuple[int, ...] = (4791, 4971)
    # Bits 7 and 6 of BTH byte 1 are SE, M. Alternative: M first, in three sources on MRC (section 3).
    solicited_event_first: bool = True
    # Our unit of a timestamp whose tsr bit is 1, in ns. Alternative: implementation-defined, anything (section 4).
    tsr1_unit_ns: int = 1000
    # cc_type we write into a NETH; any is accepted. Alternative: 0, in one source of three (section 7).
    neth_cc_type: int = 2
    # Port n (counted from 1) is bit n-1 of port_status_mask. Alternative: bit n (section 8).
    first_port_bit: int = 0
    # Lowest bit of op in EETH byte 1: bits 3:2. Alternative: 4, bits 5:4, in a third source (section 8).
    eeth_op_shift: int = 2
    # Under SRv6 the ICRC covers the inner IPv6 packet only. Alternative: the outer header too (section 9).
    icrc_covers_outer: bool = False
    # UDP checksum sent as 0. Alternative: computed (section 9).
    udp_checksum_zero: bool = True
    # Low half of the EV in the UDP source port, high half in the flow label. Alternative: swapped, in all modes or in
    # one (section 10).
    ev_low_half_in_source_port: bool = True
    # The six codepoints of section 12; sources name them, and one gives values, these. Alternative: a deployment's.
    dscp_no_trim: int = 0
    dscp_trimmable: int = 4
    dscp_trimmable_retx: int = 8
    dscp_trimmed: int = 12
    dscp_trimmed_lasthop: int = 16
    dscp_control: int = 46
    # Bytes a trimmer keeps after the BTH. Alternative: through the TSETH wherever it ends (section 12).
    trim_keeps_after_bth: int = 8
    # spdcid and dpdcid of a SACK or NACK are of its own sender and receiver. Alternative: of those of the data, so that
    # the requestor's own QPN is spdcid, in one source of two (sections 6 and 7).
    dcids_of_data: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("dscp_") and not 0 <= value <= 63:
                raise CallerError(f"{field.name} must be 0..63, got {value}")
        for port in (self.udp_port, *self.accepted_udp_ports):
            if type(port) is not int or not 0 <= port <= 0xFFFF:
                raise CallerError(f"a UDP port must be 0..65535, got {port!r}")
        if self.tsr1_unit_ns < 1:
            raise CallerError(f"tsr1_unit_ns must be at least 1, got {self.tsr1_unit_ns}")
        if not 0 <= self.neth_cc_type <= 15:
            raise CallerError(f"neth_cc_type must be 0..15, got {self.neth_cc_type}")
        if self.eeth_op_shift not in (2, 4):
            raise CallerError(f"eeth_op_shift must be 2 or 4, got {self.eeth_op_shift}")
        if self.first_port_bit not in (0, 1):
            raise CallerError(f"first_port_bit must be 0 or 1, got {self.first_port_bit}")

    @property
    def shared(self) -> dict[str, bool | int]:
        """The switches that two connected ends have to set alike, by name."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name not in MAY_DIFFER}

    @property
    def solicited_event_bit(self) -> int:
        """SE in BTH byte 1."""
        return 0x80 if self.solicited_event_first else 0x40

    @property
    def trimmed_dscps(self) -> tuple[int, int]:
        """The codepoints of trimmed packets: trimmed in the fabric, trimmed at the last hop."""
        return self.dscp_trimmed, self.dscp_trimmed_lasthop

    @classmethod
    def from_option(cls, options: tuple[str, ...] | list[str], mode: str | None = None) -> WireProfile:
        """A profile from `--wire-profile` values: JSON file names and `key=value` pairs, later ones winning.

        `ev_low_half_in_source_port` may be an object with a value for each mode of the network that differs from the
        default: {"stev": false}. `mode` is that of the endpoint. Raises CallerError for an unknown key, a value of the
        wrong type, and such an object where there is no mode.

        >>> WireProfile.from_option(["eeth_op_shift=4"]).eeth_op_shift
        4
        """
        changes: dict[str, Any] = {}
        for option in options:
            if "=" in option:
                key, _, text = option.partition("=")
                changes[key.strip()] = _parse_value(key.strip(), text.strip())
                continue
            document = json_file(option, "wire profile", _MOST_BYTES)
            if not isinstance(document, dict):
                raise CallerError(f"wire profile {option}: a JSON object of switches is expected")
            changes.update(document)
        known = {field.name: field for field in dataclasses.fields(cls)}
        for key, value in changes.items():
            if key not in known:
                raise CallerError(f"no wire profile switch {key!r}: there are {', '.join(known)}")
            default = known[key].default
            if key == "ev_low_half_in_source_port" and isinstance(value, dict):
                value = changes[key] = _of_mode(value, default, mode)
            if isinstance(default, tuple):
                changes[key] = tuple(value) if isinstance(value, list | tuple) else (value,)
            elif type(value) is not type(default):
                raise CallerError(f"wire profile switch {key} takes a {type(default).__name__}, got {value!r}")
        return cls(**changes)


def _of_mode(by_mode: dict[str, Any], default: Any, mode: str | None) -> bool:
    """The value of ev_low_half_in_source_port in a mode, out of those that an object gives by mode."""
    switch = "wire profile switch ev_low_half_in_source_port"
    for key, value in by_mode.items():
        if key not in _EV_MODES:
            raise CallerError(f"{switch}: no mode {quoted(key)}: there are {', '.join(_EV_MODES)}")
        if type(value) is not bool:
            raise CallerError(f"{switch}: {key} takes a bool, got {quoted(value)}")
    if mode is None:
        raise CallerError(f"{switch} has a value per mode, and packets do not show their mode here: give true or false")
    return bool(by_mode.get(mode.removesuffix("-srh"), default))


def _parse_value(key: str, text: str) -> Any:
    try:
        return parse_json(text.lower().encode(errors="replace"))
    except NotJson:
        try:
            return int(text, 0)
        except ValueError:
            raise CallerError(f"wire profile switch {key}: {text!r} is neither a number nor true or false") from None


# The wire as docs/protocol/wire.md describes it, with its choices.
DEFAULT_WIRE_PROFILE = WireProfile()

# Switches that two connected ends may set differently, and why that is safe. Every other switch has to be the same.
MAY_DIFFER: Mapping[str, str] = {
    "udp_port": "compared with the ports that the other end accepts",
    "accepted_udp_ports": "compared with the port that the other end sends to",
    "neth_cc_type": "a receiver accepts any (wire.md section 7)",
    "dcids_of_data": "a receiver does not look at them (wire.md section 6)",
    "udp_checksum_zero": "a receiver does not look at it (wire.md section 9)",
    "trim_keeps_after_bth": "the switch that trims decides it (wire.md section 12)",
}
