# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations, node to node (wire.md section 8; behaviour.md, Paths)."""

from __future__ import annotations

from mrc.conformance.script import Bench, case, ms, us, wire


def _behind_bth(frame: bytes, length: int) -> bytes:
    """The extension header: the bytes between BTH and ICRC."""
    return frame[-length - 4 : -4]


def _past_the_beginning(bench: Bench) -> None:
    """A node may measure round trips with EV probes when a QP comes up; that is over then."""
    bench.wait(ms(100))
    bench.read()


@case("MRC-OP-01", look_at="the length of an ERTH, its reserved bytes and the place of each field")
def an_erth_has_16_bytes(bench: Bench) -> None:
    """An EV probe of the target's has 16 bytes behind the BTH: op 1 in byte 1, 0 in the reserved bytes."""
    _past_the_beginning(bench)
    bench.probe_ev(bench.planes[0].target_evs[0])
    request = bench.expect("ENDPOINT_REQUEST")
    length = request.udp_len - 8 - 12 - 4
    bench.check(length == 16, "16 bytes behind the BTH", f"there are {length}")
    erth = _behind_bth(request.frame, 16)
    bench.check(erth[:3] == b"\0\1\0", "00 01 00 in the first three bytes", f"the ERTH is {erth.hex(' ')}")
    bench.check(not any(erth[8:12]), "0 in bytes 8 to 11", f"the ERTH is {erth.hex(' ')}")


@case("MRC-OP-09", look_at="whether EV probes are answered whatever became of the QPs")
def an_ev_probe_needs_no_qp(bench: Bench) -> None:
    """The only QP of the target's goes to ERROR: an EV probe is answered all the same."""
    bench.ask(bench.qp.to_error)
    bench.expect_state("ERROR")
    bench.endpoint_request(3)
    bench.expect("ENDPOINT_RESPONSE", request_id=3, op=wire.EV_PROBE, dqp=wire.ENDPOINT_QPN)


@case("MRC-OP-09/sent", look_at="whether EV probes are sent whatever became of the QPs")
def an_ev_probe_is_sent_without_a_qp(bench: Bench) -> None:
    """The only QP of the target's goes to ERROR. A controller has an EV probed: the probe goes out all the same."""
    _past_the_beginning(bench)
    bench.ask(bench.qp.to_error)
    bench.expect_state("ERROR")
    ev = bench.planes[0].target_evs[0]
    bench.probe_ev(ev)
    bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE, ev=ev, dqp=wire.ENDPOINT_QPN)


@case("MRC-OP-06", look_at="bits 15:0 of the PSN of a response")
def a_response_has_the_id_of_its_request(bench: Bench) -> None:
    """Requests with ids 1, 0xffff and 0 are answered under these ids."""
    for request_id in (1, 0xFFFF, 0):
        bench.endpoint_request(request_id)
        bench.expect("ENDPOINT_RESPONSE", request_id=request_id)


@case("MRC-OP-07", look_at="bytes 28 and 29 of the EETH")
def a_response_reflects_the_timestamp(bench: Bench) -> None:
    """Requests with timestamps 1, 0x8001 and 0xffff: each answer has the one of its request."""
    for request_id, timestamp in enumerate((1, 0x8001, 0xFFFF)):
        bench.endpoint_request(request_id, timestamp=timestamp)
        bench.expect("ENDPOINT_RESPONSE", request_id=request_id, tx_timestamp=timestamp)


@case("MRC-OP-02", look_at="which op is which")
def each_operation_is_answered_with_its_op(bench: Bench) -> None:
    """A PORT_STATUS_UPDATE, op 0, and an EV_PROBE, op 1, are answered with their op."""
    bench.endpoint_request(1, op=0, mask=bench.all_up)
    bench.expect("ENDPOINT_RESPONSE", request_id=1, op=0)
    bench.endpoint_request(2, op=1)
    bench.expect("ENDPOINT_RESPONSE", request_id=2, op=1)


@case("MRC-OP-04", look_at="the length of an EETH, its reserved bytes and the place of tx_timestamp")
def an_eeth_has_36_bytes(bench: Bench) -> None:
    """The answer to an EV probe with timestamp 0x1234 has 36 bytes behind the BTH: all 0 but for op in byte 1 and
    the timestamp in bytes 28 and 29."""
    bench.endpoint_request(1, timestamp=0x1234)
    response = bench.expect("ENDPOINT_RESPONSE", request_id=1)
    length = response.udp_len - 8 - 12 - 4
    bench.check(length == 36, "36 bytes behind the BTH", f"there are {length}")
    eeth = _behind_bth(response.frame, 36)
    rest = eeth[:1] + eeth[2:28] + eeth[30:]
    bench.check(not any(rest), "0 in all reserved bytes", f"the EETH is {eeth.hex(' ')}")
    bench.check(eeth[28:30] == b"\x12\x34", "12 34 in bytes 28 and 29", f"the EETH is {eeth.hex(' ')}")


@case("MRC-OP-05", look_at="where in byte 1 of the EETH op is")
def op_has_its_place_in_the_eeth(bench: Bench) -> None:
    """The answer to an EV probe, op 1, has 0x04 in byte 1 of its EETH, or where the switch is set so 0x10."""
    bench.endpoint_request(1)
    response = bench.expect("ENDPOINT_RESPONSE", request_id=1)
    found, wanted = _behind_bth(response.frame, 36)[1], 1 << bench.profile.eeth_op_shift
    bench.check(found == wanted, f"{wanted:#04x} in byte 1", f"it is {found:#04x}")


@case("MRC-OP-08", look_at="the DSCP of an EV probe whose caller named one")
def an_ev_probe_goes_in_the_class_named(bench: Bench) -> None:
    """A controller has one EV probed in class 10, another in the class of data: each goes out so."""
    _past_the_beginning(bench)
    ev = bench.planes[0].target_evs[0]
    for dscp in (10, bench.profile.dscp_trimmable):
        bench.read()
        bench.probe_ev(ev, dscp)
        bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE, dscp=dscp, ev=ev)


@case("MRC-OP-10", target_evs=2, look_at="which EV a probe goes by, and what its round trip is taken for")
def an_ev_probe_measures_its_ev(bench: Bench) -> None:
    """Two EVs are probed: each probe goes by its EV; one is answered after 300 us, which is what it measures, the other
    never, and that EV is told as not reachable."""
    _past_the_beginning(bench)
    bench.answer_after = None
    reached, lost = [ev for plane in bench.planes for ev in plane.target_evs][:2]
    for ev in (reached, lost):
        bench.probe_ev(ev)
        probe = bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE, ev=ev)
        if ev == reached:
            bench.wait(us(300))
            bench.endpoint_response(probe)
    bench.wait(ms(2000))
    found = bench.ask(bench.network.session.ev_probe_results)
    measured = found.get(reached) or 0
    bench.check(us(300) <= measured <= us(300) + bench.slack, "300 us measured", f"it is {measured} ns")
    bench.check(lost in found and found[lost] is None, "the other EV not reachable", f"it says {found.get(lost)}")


@case("MRC-OP-11", look_at="whether an order brings just one probe")
def an_order_brings_one_ev_probe(bench: Bench) -> None:
    """A QP that is idle sends no EV probes. A controller orders one: it goes out, and no other."""
    _past_the_beginning(bench)
    bench.expect_no("ENDPOINT_REQUEST", within=ms(100), op=wire.EV_PROBE)
    ev = bench.planes[0].target_evs[0]
    bench.probe_ev(ev)
    bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE, ev=ev)
    bench.expect_no("ENDPOINT_REQUEST", within=ms(100), op=wire.EV_PROBE)
