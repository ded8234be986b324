# SPDX-License-Identifier: BSD-2-Clause
"""Which bit of port_status_mask is which port, sent and received (wire.md section 8)."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending, loads
from mrc.conformance.script import Bench, case, ms, wire

BITS = "port n, counted from 1, is bit n - 1 (a switch); plane p goes by port p + 1; 1 is up"


def _told_mask(bench: Bench, ours: int) -> int:
    """The mask of the next PORT_STATUS_UPDATE; the target may have ports that the tester is not connected to."""
    update = bench.expect("ENDPOINT_REQUEST", op=wire.PORT_STATUS_UPDATE, within=ms(500))
    return int(update.port_status_mask) & ours


@case("MRC-OP-03", planes=4, look_at=BITS)
def each_port_has_its_bit(bench: Bench) -> None:
    """Of all ports one after the other goes down and comes back: the PORT_STATUS_UPDATE has a 0 in the bit of that
    port, 1 in those of the others, and 1 in all when it is back."""
    every = bench.all_up
    for plane in range(len(bench.planes)):
        bench.set_port(plane, False)
        found = _told_mask(bench, every)
        wanted = every & ~bench.port_mask(plane)
        bench.check(found == wanted, f"port_status_mask {wanted:#x} with port {plane + 1} down", f"it is {found:#x}")
        bench.wait(ms(10))
        bench.set_port(plane, True)
        found = _told_mask(bench, every)
        bench.check(found == every, f"port_status_mask {every:#x} with all up", f"it is {found:#x}")
        bench.wait(ms(10))


@case("MRC-OP-03/received", planes=4, look_at=BITS)
def each_bit_is_taken_for_its_port(bench: Bench) -> None:
    """The tester says one after the other of its ports that it is down: data goes by the other planes."""
    sending = Sending(bench)
    everywhere = {plane.number for plane in bench.planes}
    every = bench.all_up
    for plane in sorted(everywhere):
        bench.endpoint_request(100 + plane, op=wire.PORT_STATUS_UPDATE, mask=every & ~bench.port_mask(plane))
        bench.expect("ENDPOINT_RESPONSE", request_id=100 + plane)
        used = set(loads(sending.carry(64)))
        wanted = everywhere - {plane}
        bench.check(used == wanted, f"data on planes {sorted(wanted)}", f"it is on {sorted(used)}")


@case("MRC-OP-03/other-bits", planes=2, look_at="what bits mean of ports that there are not: nothing")
def bits_of_ports_there_are_not_mean_nothing(bench: Bench) -> None:
    """The tester has a port in each plane. A mask with all of 32 bits, one with these and bit 31 alone, and one with
    these ports say that they are up: data goes by all planes."""
    sending = Sending(bench)
    everywhere = {plane.number for plane in bench.planes}
    ours = bench.all_up
    for request_id, mask in enumerate((0xFFFFFFFF, ours | 1 << 31, ours), 1):
        bench.endpoint_request(request_id, op=wire.PORT_STATUS_UPDATE, mask=mask)
        bench.expect("ENDPOINT_RESPONSE", request_id=request_id)
        used = set(loads(sending.carry(64)))
        bench.check(used == everywhere, f"data on all planes with mask {mask:#x}", f"it is on {sorted(used)}")
