# SPDX-License-Identifier: BSD-2-Clause
"""The tester's packets, made from the codec beside this file. PSNs are given as scripts count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mrc.conformance.codec.carriage import Carriage, Outer, ev_fields, parsed_address
from mrc.conformance.codec.headers import (
    ACK,
    ACK_NO_CREDITS,
    ENDPOINT_QPN,
    ENDPOINT_REQUEST,
    ENDPOINT_RESPONSE,
    EV_PROBE,
    FIRST,
    LAST,
    LAST_IMMEDIATE,
    MIDDLE,
    NACK,
    ONLY,
    ONLY_IMMEDIATE,
    P_KEY,
    PROBE,
    SACK,
    WITH_IMMEDIATE,
)
from mrc.conformance.packets import CE, ECT0, Crafted, Heard
from mrc.conformance.setup import TRIM_NACK, Plane, TargetQpTerms, TesterQp
from mrc.conformance.target import Session
from mrc.conformance.verdicts import Failed
from mrc.conformance.words import PSN_MASK, ranges
from mrc.wire.profile import WireProfile

_VA_MASK = (1 << 64) - 1
_BITMAP = 64
_FAR = 1 << 15  # ack_psn_offset has 16 bits
Layers = list[tuple[str, Mapping[str, int]]]


class PacketMaker:
    """Makes packets of one connection without sending them. Further keyword arguments are fields, as `Crafted.but`
    takes them, and come last."""

    def __init__(self, session: Session, profile: WireProfile, tester: TesterQp, target: TargetQpTerms) -> None:
        self._session = session
        self._profile = profile
        self._tester = tester
        self._target = target
        self._planes: dict[int, Plane] = {plane.number: plane for plane in session.planes}

    # ------------------------------------------------------------------ as requestor

    def request(
        self,
        psn: int,
        payload: bytes = b"",
        *,
        opcode: int = ONLY,
        offset: int = 0,
        dmalen: int | None = None,
        msn: int | None = None,
        rqmsn: int = 0,
        immediate: int | None = None,
        timestamp: int | None = None,
        tsr: int = 0,
        ce: bool = False,
        **fields: Any,
    ) -> Crafted:
        """A write request for `offset` in the target's region. With `immediate` an Only or Last becomes the one with
        Immediate; with `timestamp` a TSETH goes along. `msn` is `psn` unless given: each PSN a message of its own."""
        if immediate is not None:
            opcode = {ONLY: ONLY_IMMEDIATE, LAST: LAST_IMMEDIATE}.get(opcode, opcode)
        bth = {"opcode": opcode, "dqp": self._target.qpn, "psn": self._tester_psn(psn)}
        layers: Layers = [("bth", {**bth, "pkey": P_KEY, "ts": int(timestamp is not None)})]
        layers.append(("meth", {"rqmsn": rqmsn & 0xFFFF, "msn": (psn if msn is None else msn) & 0xFFFF}))
        if timestamp is not None:
            layers.append(("tseth", {"tx_timestamp": timestamp, "tsr": tsr, "ftype": 1}))
        # A range below a region that begins at 0 is one at the end of the address space.
        reth = {"va": self._target.region_va + offset & _VA_MASK, "rkey": self._target.rkey}
        layers.append(("reth", {**reth, "dmalen": len(payload) if dmalen is None else dmalen}))
        if opcode in WITH_IMMEDIATE:
            layers.append(("immdt", {"data": immediate or 0}))
        if TRIM_NACK not in self._target.agreed:
            dscp = self._profile.dscp_no_trim
        else:
            dscp = self._profile.dscp_trimmable_retx if fields.get("rtx") else self._profile.dscp_trimmable
        return self._made(layers, dscp, CE if ce else ECT0, self._tester.first_psn, payload, fields)

    def message(
        self,
        psn: int,
        payload: bytes,
        *,
        offset: int = 0,
        msn: int = 0,
        immediate: int | None = None,
        **fields: Any,
    ) -> list[Crafted]:
        """The requests of one message, from `psn` on, cut by the path MTU."""
        mtu = self._target.path_mtu
        pieces = [payload[at : at + mtu] for at in range(0, len(payload), mtu)] or [b""]
        made = []
        for number, piece in enumerate(pieces):
            first, last = number == 0, number == len(pieces) - 1
            opcode = ONLY if first and last else FIRST if first else LAST if last else MIDDLE
            made.append(
                self.request(
                    psn + number,
                    piece,
                    opcode=opcode,
                    offset=offset + number * mtu,
                    dmalen=len(payload),
                    msn=msn,
                    immediate=immediate if last else None,
                    **fields,
                )
            )
        return made

    def probe(
        self, probe_id: int = 1, *, timestamp: int | None = 0, tsr: int = 0, ce: bool = False, **fields: Any
    ) -> Crafted:
        """A reliability probe; without a timestamp ftype is 0."""
        bth = {"opcode": PROBE, "pkey": P_KEY, "dqp": self._target.qpn}
        peth = {"probe_id": probe_id, **self._dcids(answers=False), "tsr": tsr}
        peth |= {"tx_timestamp": timestamp or 0, "ftype": int(timestamp is not None)}
        dscp = self._profile.dscp_trimmable
        return self._made([("bth", bth), ("peth", peth)], dscp, CE if ce else ECT0, 0, b"", fields)

    # ------------------------------------------------------------------ as responder

    def sack(
        self,
        cack: int,
        above: Iterable[int] = (),
        *,
        to: Heard | None = None,
        ack_psn: int | None = None,
        probe_id: int | None = None,
        sack_offset: int = 1,
        **fields: Any,
    ) -> Crafted:
        """A SACK of the target's requests: everything up to `cack` has arrived (-1: nothing) and the PSNs of `above`.

        `to` is the packet it answers: a WRITE gives ack_psn, entropy, tx_timestamp and rtx, a PROBE its probe_id.
        """
        bits = [psn - cack - sack_offset for psn in set(above)]
        if to is not None and not all(0 <= bit < _BITMAP for bit in bits):
            raise Failed(f"packets within {_BITMAP} PSNs of {cack + sack_offset}", f"PSNs {ranges(set(above))} came")
        bitmap = sum(1 << bit for bit in bits)
        cack_psn = self._target_psn(cack)
        bth = {"opcode": SACK, "pkey": P_KEY, "dqp": self._target.qpn, "psn": cack_psn}
        seth = {"cack_psn": cack_psn, "sack_offset": sack_offset, "bitmap": bitmap, **self._dcids(answers=True)}
        cc_state = {}
        if to is not None:
            seth["entropy"] = to.ev
            cc_state["tx_timestamp"] = to.tx_timestamp if to.has("tx_timestamp") else 0
            if to.kind == "PROBE":
                probe_id = to.probe_id
            else:
                ack_psn = to.psn if ack_psn is None else ack_psn
                bth["rtx"] = to.rtx
        if to is not None and ack_psn is not None and not -_FAR <= ack_psn - cack < _FAR:
            raise Failed(f"a packet within reach of cack_psn {cack}", f"this came: {to}")
        if probe_id is None:
            seth["ack_psn_offset"] = 0 if ack_psn is None else ack_psn - cack
        else:
            seth |= {"pr": 1, "probe_id": probe_id}
        return self._control([("bth", bth), ("seth", seth), ("cc_state", cc_state)], fields)

    def ack(self, cack: int, *, msn: int = 0, **fields: Any) -> Crafted:
        """A transport ACK of the target's requests."""
        return self.aeth(cack, ACK_NO_CREDITS, msn, **fields)

    def aeth(self, psn: int, syndrome: int, msn: int = 0, **fields: Any) -> Crafted:
        """A transport ACK or NAK, by its syndrome."""
        bth = {"opcode": ACK, "pkey": P_KEY, "dqp": self._target.qpn, "psn": self._target_psn(psn)}
        return self._control([("bth", bth), ("aeth", {"syndrome": syndrome, "msn": msn})], fields)

    def nack(self, to: Heard, reason: int, **fields: Any) -> Crafted:
        """A NACK of a WRITE of the target's."""
        psn = self._target_psn(to.psn)
        bth = {"opcode": NACK, "pkey": P_KEY, "dqp": self._target.qpn, "psn": psn, "rtx": to.rtx}
        neth = {"reason": reason, "entropy": to.ev, "nack_psn": psn, "cc_type": self._profile.neth_cc_type}
        neth |= {"tx_timestamp": to.tx_timestamp if to.has("tx_timestamp") else 0, **self._dcids(answers=True)}
        return self._control([("bth", bth), ("neth", neth)], fields)

    # ------------------------------------------------------------------ from node to node

    def endpoint_request(
        self,
        request_id: int,
        op: int = EV_PROBE,
        *,
        mask: int = 0,
        timestamp: int | None = 0,
        tsr: int = 0,
        **fields: Any,
    ) -> Crafted:
        """An endpoint request; `mask` is the port_status_mask."""
        bth = {"opcode": ENDPOINT_REQUEST, "pkey": P_KEY, "dqp": ENDPOINT_QPN, "psn": request_id}
        erth = {"op": op, "port_status_mask": mask, "tsr": tsr}
        erth |= {"tx_timestamp": timestamp or 0, "ftype": int(timestamp is not None)}
        return self._control([("bth", bth), ("erth", erth)], fields)

    def endpoint_response(self, to: Heard, **fields: Any) -> Crafted:
        """The answer to an endpoint request of the target's."""
        bth = {"opcode": ENDPOINT_RESPONSE, "pkey": P_KEY, "dqp": ENDPOINT_QPN, "psn": to.request_id}
        eeth = {"op": to.op, "tx_timestamp": to.tx_timestamp}
        return self._control([("bth", bth), ("eeth", eeth)], {"ev": self._ev_beside(to), **fields})

    # ------------------------------------------------------------------ what they share

    def _control(self, layers: Layers, fields: Mapping[str, Any]) -> Crafted:
        return self._made(layers, self._profile.dscp_control, 0, self._target.first_psn, b"", fields)

    def _made(
        self, layers: Layers, dscp: int, ecn: int, first_psn: int, payload: bytes, fields: Mapping[str, Any]
    ) -> Crafted:
        """`ev` and `plane` among the fields say how it goes: an EV of the plane by default, plane 0 by default."""
        left = dict(fields)
        plane = self._plane_of(left.pop("plane", None), left.get("ev"))
        ev = int(left.pop("ev", plane.evs[0]))
        (version, source), (_, destination) = parsed_address(plane.tester), parsed_address(plane.target)
        sport, label = ev_fields(ev, version, self._profile)
        traffic_class = dscp << 2 | ecn
        outer = self._session.outer_addresses(ev)
        carriage = Carriage(
            source,
            destination,
            version,
            traffic_class,
            label,
            sport=sport,
            dport=self._profile.udp_port,
            outer=None if outer is None else Outer(*outer, traffic_class),
        )
        packet = Crafted(tuple(layers), carriage, plane.number, self._profile, first_psn, payload)
        return packet.but(**left)

    def _plane_of(self, number: int | None, ev: int | None) -> Plane:
        if number is not None:
            return self._planes[number]
        of_ev = (plane for plane in self._planes.values() if ev in plane.evs)
        return next(of_ev, next(iter(self._planes.values())))

    def _ev_beside(self, packet: Heard) -> int:
        """An EV of the plane a packet came in on."""
        return self._planes[packet.plane].evs[0]

    def _dcids(self, *, answers: bool) -> dict[str, int]:
        """The low 16 bits of the QPN of the packet's sender, and of its receiver; of those of the data that is answered
        where the profile says so."""
        own = {"spdcid": self._tester.qpn & 0xFFFF, "dpdcid": self._target.qpn & 0xFFFF}
        turned = answers and self._profile.dcids_of_data
        return {"spdcid": own["dpdcid"], "dpdcid": own["spdcid"]} if turned else own

    def _tester_psn(self, number: int) -> int:
        return self._tester.first_psn + number & PSN_MASK

    def _target_psn(self, number: int) -> int:
        return self._target.first_psn + number & PSN_MASK
