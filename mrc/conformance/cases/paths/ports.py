# SPDX-License-Identifier: BSD-2-Clause
"""Local ports that go down and come back, and what peers are told (behaviour.md, Ports)."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending, loads
from mrc.conformance.script import Bench, case, ms, us, wire


def _planes(bench: Bench) -> tuple[int, ...]:
    return tuple(plane.number for plane in bench.planes)


def _update(bench: Bench, request_id: int, *up: int) -> None:
    """Tell the target that the tester's ports of these planes are up and no others; it has to answer."""
    bench.endpoint_request(request_id, op=wire.PORT_STATUS_UPDATE, mask=bench.port_mask(*up))
    bench.expect("ENDPOINT_RESPONSE", request_id=request_id, op=wire.PORT_STATUS_UPDATE)


def _expect_planes(bench: Bench, sending: Sending, *planes: int) -> None:
    """See that data goes by these planes and no others."""
    found = set(loads(sending.carry(64)))
    bench.check(found == set(planes), f"data on planes {planes}", f"it is on {sorted(found)}")


@case("MRC-PORT-01", planes=2, look_at="what still goes by the plane of a port that is down")
def a_port_that_is_down_carries_nothing(bench: Bench) -> None:
    """The port of plane 0 goes down: of everything the target sends from then on, data and control, nothing goes by
    plane 0."""
    sending = Sending(bench)
    _expect_planes(bench, sending, *_planes(bench))
    bench.set_port(0, False)
    down_at = bench.now
    _expect_planes(bench, sending, *_planes(bench)[1:])
    for psn in range(8):
        bench.expect_works(psn)
    found = [packet for packet in bench.all_heard if packet.plane == 0 and packet.at > down_at]
    bench.check(not found, "nothing on plane 0", f"{found[0]}" if found else "")


@case("MRC-PORT-02", planes=2, look_at="what peers are told of a port that went down, by which plane and how often")
def a_port_that_went_down_is_told(bench: Bench) -> None:
    """The port of plane 0 goes down: a PORT_STATUS_UPDATE says so on another plane, again and again with the same mask
    until it is answered, and then no more."""
    bench.answer_after = None
    up = bench.port_mask(*_planes(bench)[1:])
    bench.set_port(0, False)
    for _ in range(3):
        update = bench.expect("ENDPOINT_REQUEST", op=wire.PORT_STATUS_UPDATE, within=ms(500))
        bench.check(update.plane != 0, "the update on another plane", f"it is on plane {update.plane}")
        ours = update.port_status_mask & bench.all_up
        bench.check(ours == up, f"port_status_mask {up:#x}", f"it is {ours:#x}")
    bench.endpoint_response(update)
    bench.expect_no("ENDPOINT_REQUEST", within=ms(1000), op=wire.PORT_STATUS_UPDATE)


@case("MRC-PORT-03", planes=2, look_at="what a PORT_STATUS_UPDATE of the peer's does to data")
def the_plane_of_a_port_that_is_down_is_avoided(bench: Bench) -> None:
    """The tester says that its port of plane 0 is down: the target answers, and all its data goes by the others."""
    sending = Sending(bench)
    _expect_planes(bench, sending, *_planes(bench))
    _update(bench, 7, *_planes(bench)[1:])
    _expect_planes(bench, sending, *_planes(bench)[1:])


@case("MRC-PORT-03/back", planes=2, look_at="what a PORT_STATUS_UPDATE with the port up again does")
def the_plane_of_a_peers_port_is_used_again(bench: Bench) -> None:
    """The tester says that its port of plane 0 is down, then that it is back: all planes carry data."""
    sending = Sending(bench)
    _update(bench, 7, *_planes(bench)[1:])
    _expect_planes(bench, sending, *_planes(bench)[1:])
    _update(bench, 8, *_planes(bench))
    _expect_planes(bench, sending, *_planes(bench))


@case("MRC-PORT-04", planes=2, look_at="what comes back with a port")
def a_port_that_is_back_carries_data(bench: Bench) -> None:
    """The port of plane 0 goes down and comes back: its plane carries data again."""
    sending = Sending(bench)
    bench.set_port(0, False)
    _expect_planes(bench, sending, *_planes(bench)[1:])
    bench.set_port(0, True)
    bench.wait(us(100))
    _expect_planes(bench, sending, *_planes(bench))


@case("MRC-PORT-05", planes=2, look_at="what peers are told of a port that is back")
def a_port_that_is_back_is_told(bench: Bench) -> None:
    """The port of plane 0 goes down, which is answered, and comes back: a PORT_STATUS_UPDATE says that all are up."""
    bench.set_port(0, False)
    bench.wait(ms(100))
    bench.read()
    bench.set_port(0, True)
    update = bench.expect("ENDPOINT_REQUEST", op=wire.PORT_STATUS_UPDATE, within=ms(500))
    every = bench.all_up
    found = update.port_status_mask & every
    bench.check(found == every, f"port_status_mask {every:#x}", f"it is {found:#x}")
