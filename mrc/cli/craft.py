# SPDX-License-Identifier: BSD-2-Clause
"""`mrc craft`: packets from field=value pairs, into a capture, as a hex dump or as JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from mrc.cli.common import PATH_MTUS, SIZE, json_option, note, print_json, usage_errors, wire_profile_option
from mrc.cli.completing import complete_craft
from mrc.cli.craft_fields import MESSAGES, MODES, OPCODE_SLUGS, CraftRequest, fields_of, parse
from mrc.whole_files import whole_file
from mrc.wire.profile import WireProfile

if TYPE_CHECKING:
    from mrc.cli.craft_packets import CraftOptions

_ETHERNET, _RAW_IP = 1, 101
# Time stamps count from 0, so that the same words make the same file.
_INTERVAL_NS = 1_000
_SUFFIXES = (".pcap", ".pcapng")


@click.command()
@click.argument("words", nargs=-1, metavar="OPCODE [MODE] [FIELD=VALUE]...", shell_complete=complete_craft)
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
              help="Write a capture: .pcap or .pcapng, - for a pcap on standard output.")  # fmt: skip
@click.option("--hex", "as_hex", is_flag=True, help="Print a hex dump alone, as text2pcap and Wireshark import it.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="Build N packets with consecutive PSNs.")
@click.option("--mtu", type=PATH_MTUS, default="4096", show_default=True,
              help="Path MTU of a message, in bytes of payload.")  # fmt: skip
@click.option("--no-icrc", is_flag=True, help="Leave the ICRC off.")
@click.option(
    "--trim",
    type=click.Choice(["fabric", "lasthop"]),
    help="Trim packets as a switch in the fabric or at the last hop does.",
)
@click.option("--trim-to", type=SIZE, metavar="SIZE",
              help="What a switch of --trim keeps, in bytes of the frame, Ethernet header included: 256.  [default: "
              "the headers through the BTH and the 8 bytes after it]")  # fmt: skip
@click.option("--link", type=click.Choice(["ether", "ip"]), default="ether", show_default=True,
              help="What a packet begins with.")  # fmt: skip
@click.option("--template", "template_file", type=click.Path(dir_okay=False), metavar="FILE",
              help="In srv6 mode, where the bits of an EV go: JSON with template_data, template_mask, ps_mask and "
              "ps_list. It takes the place of this project's address plan.")  # fmt: skip
@click.option("--from", "recipe", type=click.File("r"), metavar="FILE",
              help="Read packets from FILE, one a line, in the same words; - for standard input.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List opcodes and modes; with an OPCODE, its fields.")
@json_option
@wire_profile_option
def craft(
    words: tuple[str, ...],
    output: str | None,
    as_hex: bool,
    count: int | None,
    mtu: str,
    no_icrc: bool,
    trim: str | None,
    trim_to: int | None,
    link: str,
    template_file: str | None,
    recipe: Any,
    listing: bool,
    as_json: bool,
    wire_options: tuple[str, ...],
) -> None:
    """Build packets from field=value pairs, without writing Python.

    OPCODE is one of MRC's (write-only, write-first, sack, nack, ack, probe, endpoint-request, ...), of RoCEv2's
    (rc-send-only, ...), or `write`, a message in as many packets as it takes. MODE is udp (the default), stev, srv6 or
    srv6-srh. Fields are named as `mrc dissect --json` names them, with or without their layer; of two IPv6 headers,
    `outer` is the outer one. `ev`, `payload`, `icrc` and `hmac` belong to no header. What is not given is computed:
    lengths, padding, ICRC, traffic class, ports, DMALen. `ev` is the packet's own; `entropy` in a SACK or NACK is the
    EV of the packet it answers, 0 unless given.

    With --count the PSN advances from packet to packet, and VA and MSN as the opcode requires; `write` becomes a
    message of that many packets. Without --output or --hex, each packet is printed as a summary line and a hex dump.

    \b
    Examples:
      mrc craft write-only srv6 ev=0x01000003 bth.psn=5 reth.va=0x1000 payload=text:hello -o x.pcap
      mrc craft sack bth.dqp=0x12 seth.cack_psn=4 seth.bitmap=0b1110110 --hex
      mrc craft write dqp=0x12 psn=100 va=0x1000 rkey=7 ev=0xc001,0xc002 --count 8 --mtu 1024 -o spray.pcapng
      mrc craft nack reason=NO_BITMAP nack_psn=7 ipv4.src=10.0.0.2 ipv4.dst=10.0.0.1 --json
      mrc craft write-only payload=zeros:4096 icrc=0xdeadbeef -o - | mrc dissect -
      mrc craft write-only payload=zeros:4096 --trim fabric -o trimmed.pcap
      mrc craft write-only payload=zeros:4096 --trim fabric --trim-to 256 --json
      mrc craft write-only srv6 ev=2345 --template to-host-7.json -o theirs.pcap
      mrc craft --from story.txt -o story.pcap
      mrc craft sack --list
    """
    if listing:
        _list(words, as_json)
        return
    if as_hex + as_json + (output == "-") > 1:
        raise click.UsageError("--hex, --json and --output - cannot be combined: each needs standard output for itself")
    if output not in (None, "-") and Path(str(output)).suffix not in _SUFFIXES:
        raise click.UsageError(f"--output {output}: the name has to end in {' or '.join(_SUFFIXES)}")
    if trim_to is not None and trim is None:
        raise click.UsageError("--trim-to says how much --trim keeps: give --trim fabric or --trim lasthop too")
    profile = WireProfile.from_option(wire_options)
    requests = _requests(words, recipe)
    from mrc.cli.craft_packets import CraftOptions
    from mrc.fabric.template_file import load_template
    from mrc.layers.bind import bound_to_udp

    template = None if template_file is None else load_template(template_file)
    options = CraftOptions(count, int(mtu), no_icrc, trim, link == "ether", trim_to, template)
    with bound_to_udp(profile):
        packets = _packets(requests, options, profile)
        if output is not None:
            packets = _written(packets, output, _ETHERNET if options.ether else _RAW_IP)
        if as_json:
            print_json(_document(list(packets), output, options, profile))
        else:
            _print(packets, output, as_hex, options)


def _requests(words: Sequence[str], recipe: Any) -> list[tuple[str, CraftRequest]]:
    """What to make, each with what to call it in an error."""
    if recipe is None:
        return [("", parse(words))]
    if words:
        raise click.UsageError("--from reads the words from its file: give none on the command line")
    requests = []
    for number, line in enumerate(recipe, 1):
        where = f"{recipe.name}, line {number}: "
        try:
            parts = shlex.split(line, comments=True)
            if parts:
                requests.append((where, parse(parts)))
        except ValueError as error:
            raise click.UsageError(f"{where}{error}") from None
        except click.UsageError as error:
            raise click.UsageError(f"{where}{error.message}") from None
    if not requests:
        raise click.UsageError(f"{recipe.name} names no packet")
    return requests


def _packets(requests: list[tuple[str, CraftRequest]], options: CraftOptions, profile: WireProfile) -> Iterator[bytes]:
    from mrc.cli.craft_packets import crafted

    for where, request in requests:
        with usage_errors(where):
            yield from crafted(request, options, profile)


def _written(packets: Iterator[bytes], output: str, link_type: int) -> Iterator[bytes]:
    """The packets, each once it is in the file. The file is made with the first."""
    from scapy.utils import PcapNgWriter, RawPcapWriter

    writer: Any = None
    with ExitStack() as stack:
        try:
            for number, data in enumerate(packets):
                if writer is None:
                    target: str | BinaryIO = sys.stdout.buffer
                    if output != "-":
                        target = str(stack.enter_context(whole_file(output)))
                    if output.endswith(".pcapng"):
                        writer = PcapNgWriter(target)
                        writer.linktype = link_type
                    else:
                        writer = RawPcapWriter(target, linktype=link_type, nano=True)
                    writer.write_header(None)
                seconds, nanoseconds = divmod(number * _INTERVAL_NS, 1_000_000_000)
                # Scapy writes a pcapng's time from `sec` alone.
                if output.endswith(".pcapng"):
                    writer.write_packet(data, sec=seconds + Decimal(nanoseconds) / 1_000_000_000, usec=0)
                else:
                    writer.write_packet(data, sec=seconds, usec=nanoseconds)
                yield data
        finally:
            # What is still in a buffer may be what does not fit.
            if writer is not None:
                writer.flush() if output == "-" else writer.close()


def _print(packets: Iterator[bytes], output: str | None, as_hex: bool, options: CraftOptions) -> None:
    from scapy.utils import hexdump

    count = 0
    for count, data in enumerate(packets, 1):
        if output is not None and not as_hex:
            continue
        if not as_hex:
            click.echo(f"# {count}: {_summary(data, options)}, {len(data)} bytes")
        click.echo(hexdump(data, dump=True) + "\n")
    if output not in (None, "-"):
        note(f"{output}: {count} packet{'s' * (count != 1)}")


def _summary(data: bytes, options: CraftOptions) -> str:
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether

    first = Ether if options.ether else IP if data[0] >> 4 == 4 else IPv6
    packet = first(data)
    bth = packet.getlayer("BTH")
    return str(bth.mysummary()[0] if bth is not None else packet.summary())


def _document(
    packets: Sequence[bytes], output: str | None, options: CraftOptions, profile: WireProfile
) -> dict[str, Any]:
    from mrc.capture.fields import packet_document
    from mrc.capture.frames import Record
    from mrc.capture.walk import walk

    link_type = _ETHERNET if options.ether else _RAW_IP
    documents = []
    for number, data in enumerate(packets, 1):
        record = Record((number - 1) * _INTERVAL_NS, data, len(data), link_type)
        document = packet_document(number, record, walk(data, link_type, len(data), profile), profile)
        documents.append({**document, "bytes": data.hex()})
    return {"file": output, "link": "ether" if options.ether else "ip", "packets": documents}


def _list(words: Sequence[str], as_json: bool) -> None:
    if words:
        request = parse(words)
        fields = fields_of(request.opcode, request.mode)
        if as_json:
            print_json(
                {"fields": [{"name": item.full_name, "least": item.least, "most": item.most} for item in fields]}
            )
            return
        click.echo(f"{words[0]}: {request.opcode.name}, 0x{request.opcode.value:02x}, mode {request.mode}")
        for item in fields:
            click.echo(f"  {item.full_name:24} {item.range}")
        return
    opcodes = [
        (name, opcode.value, " ".join(("bth", *opcode.headers)) + " [payload]" * opcode.has_payload)
        for name, opcode in {**MESSAGES, **OPCODE_SLUGS}.items()
    ]
    if as_json:
        print_json({
            "opcodes": [
                {"name": name, "value": None if name in MESSAGES else value, "headers": headers.split()}
                for name, value, headers in opcodes
            ],
            "modes": list(MODES),
        })  # fmt: skip
        return
    for name, value, headers in opcodes:
        click.echo(f"  {name:34} {'message' if name in MESSAGES else f'0x{value:02x}':8} {headers}")
    for mode, what in MODES.items():
        click.echo(f"  {mode:10} {what}")
