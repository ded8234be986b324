"""`mrc dissect`: the packets of a capture, as a table, as lines, in full, or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import click

from mrc.cli.common import note, wire_profile_option
from mrc.errors import CallerError, MrcError, SystemRefused

if TYPE_CHECKING:
    from mrc.capture.files import Record
    from mrc.wire.profile import WireProfile


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list, one object a packet.")
@click.option("--jsonl", "as_json_lines", is_flag=True, help="One JSON object a line, one line a packet.")
@click.option("--summary", "as_lines", is_flag=True, help="The lines of the table without its heading.")
@click.option("--verbose", "in_full", is_flag=True, help="Every field of every layer, as Scapy shows them.")
@wire_profile_option
def dissect(
    file: str, as_json: bool, as_json_lines: bool, as_lines: bool, in_full: bool, wire_options: tuple[str, ...]
) -> None:
    """Show the packets of FILE: pcap or pcapng, gzip of either, - for standard input.

    Without an option, a table: number, seconds since the first packet, the innermost IP source and destination, the
    path (uSIDs still in the outer destination by their names in the fabric, or the entropy value), and what the
    packet says. A wrong ICRC, a trimmed and a malformed packet are marked there.

    \b
    Examples:
      mrc dissect capture.pcap
      mrc dissect capture.pcap --json | jq '.[] | select(.icrc_ok == false).number'
      mrc dissect capture.pcapng.gz --verbose | less
      tcpdump -U -w - -i p0 | mrc dissect -
      mrc dissect capture.pcap --wire-profile accepted_udp_ports=4791
    """
    if as_json + as_json_lines + as_lines + in_full > 1:
        raise click.UsageError("--json, --jsonl, --summary and --verbose exclude each other")
    from mrc.wire.profile import WireProfile

    profile = WireProfile.from_option(wire_options)
    with _opened(file) as stream:
        from mrc.capture.files import read_capture

        records = read_capture(cast("BinaryIO", stream), "standard input" if file == "-" else file)
        if as_json:
            text = _json_document(records, profile)
        elif as_json_lines:
            text = (document + "\n" for document in _json_lines(records, profile))
        elif in_full:
            text = _in_full(records, profile)
        else:
            text = _table(records, profile, heading=not as_lines)
        _print_all(text)


def _opened(file: str) -> IO[bytes]:
    try:
        return click.open_file(file, "rb")
    except OSError as error:
        raise SystemRefused(f"{file}: cannot be opened: {error.strerror}") from error


def _print_all(text: Iterable[str]) -> None:
    """Write to stdout until whoever reads it has had enough, as `head` has."""
    out = sys.stdout
    if out is None:
        raise CallerError("standard output is closed: there is nowhere to print to")
    try:
        try:
            for part in text:
                out.write(part)
        finally:
            out.flush()
    except MrcError:
        raise
    except OSError as error:
        # Python flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        if not isinstance(error, BrokenPipeError):
            raise SystemRefused(f"standard output cannot be written: {error.strerror}") from error


def _table(records: Iterator[Record], profile: WireProfile, heading: bool) -> Iterator[str]:
    from mrc.capture.summary import Summary
    from mrc.capture.walk import walk

    summary = Summary(profile)
    number = 0
    for number, record in enumerate(records, 1):
        line = summary.line(number, record, walk(record.data, record.link_type, record.wire_length, profile))
        if heading:
            yield summary.heading() + "\n"
            heading = False
        yield line + "\n"
    if not number:
        note("the capture holds no packets")


def _json_lines(records: Iterator[Record], profile: WireProfile) -> Iterator[str]:
    from mrc.capture.fields import packet_document
    from mrc.capture.walk import walk

    for number, record in enumerate(records, 1):
        walked = walk(record.data, record.link_type, record.wire_length, profile)
        yield json.dumps(packet_document(number, record, walked, profile))


def _json_document(records: Iterator[Record], profile: WireProfile) -> Iterator[str]:
    """The list, a packet a line. A capture that turns out damaged still makes a whole document."""
    yield "["
    before = "\n"
    failure = None
    try:
        for document in _json_lines(records, profile):
            yield before + document
            before = ",\n"
    except MrcError as error:
        failure = error
    yield "\n]\n"
    if failure is not None:
        raise failure


def _in_full(records: Iterator[Record], profile: WireProfile) -> Iterator[str]:
    from mrc.capture.summary import Summary
    from mrc.capture.verbose import layers_follow, shown_in_full
    from mrc.capture.walk import walk

    summary = Summary(profile)
    with layers_follow(profile):
        for number, record in enumerate(records, 1):
            walked = walk(record.data, record.link_type, record.wire_length, profile)
            yield f"{summary.line(number, record, walked)}\n{shown_in_full(record, walked, profile)}\n"
