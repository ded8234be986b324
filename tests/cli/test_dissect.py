# SPDX-License-Identifier: BSD-2-Clause
"""`mrc dissect` as a user types it: its four forms, files of every kind, damage, and a reader that leaves early."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import programs
import pytest
from click.testing import CliRunner, Result
from patience import PATIENCE_S, narrow_pipe, until_it_waits_for_a_reader
from programs import MRC

from mrc.cli import main

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"
RECORD = 16


def invoke(*argv: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["dissect", *map(str, argv)], input=stdin)


def shell(command: str) -> subprocess.CompletedProcess[bytes]:
    """A pipeline in which `mrc` is this package's command; its exit status is PIPESTATUS[0]."""
    mrc = f'{sys.executable} -c "from mrc.cli import main; main()"'
    script = f'mrc() {{ {mrc.replace(" main()", " main(prog_name=chr(109))")} "$@"; }}; {command}'
    return subprocess.run(["bash", "-c", script], capture_output=True, check=False, cwd=ROOT)


KEYS = ["number", "time", "length", "ev", "path", "opcode_name", "layers", "icrc_ok", "malformed", "trimmed"]


def record_ends() -> list[int]:
    data, at, ends = CAPTURE.read_bytes(), 24, []
    while at < len(data):
        at += RECORD + struct.unpack_from("<I", data, at + 8)[0]
        ends.append(at)
    return ends


@pytest.fixture
def cut_short(tmp_path: Path) -> tuple[Path, int]:
    """The capture cut inside its fourth record, and the byte where that begins."""
    path = tmp_path / "cut.pcap"
    third = record_ends()[2]
    path.write_bytes(CAPTURE.read_bytes()[: third + 30])
    return path, third


def test_json_is_one_list_with_the_documented_keys() -> None:
    result = invoke(CAPTURE, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(result.stdout)
    assert [packet["number"] for packet in found] == list(range(1, 213))
    for packet in found:
        assert list(packet) == KEYS
        assert (packet["icrc_ok"], packet["malformed"], packet["trimmed"]) == (True, None, False)
        assert [layer["layer"] for layer in packet["layers"]][:4:2] == ["ether", "udp"]
        assert packet["layers"][-1]["layer"] == "icrc"
    # The first record's own header: seconds, microseconds.
    seconds, fraction = struct.unpack_from("<II", CAPTURE.read_bytes(), 24)
    assert found[0]["time"] == f"{seconds}.{fraction:06d}000"
    # A WRITE of 1 byte: three bytes of padding are no payload.
    assert found[0]["layers"][-2] == {"layer": "payload", "length": 1}
    assert found[0]["layers"][3]["fields"]["pad"] == 3


def test_json_lines_are_the_same_objects() -> None:
    lines = invoke(CAPTURE, "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == json.loads(invoke(CAPTURE, "--json").stdout)


def test_the_table_has_a_heading_and_a_line_a_packet() -> None:
    table = invoke(CAPTURE).stdout.splitlines()
    assert table[0].split() == ["no.", "time", "source", "destination", "path", "summary"]
    assert len(table) == 213
    assert table[1].split()[:5] == ["1", "0.000000", "10.77.0.2", "10.77.0.1", "-"]
    assert "RC RDMA WRITE Only QP=0x000011" in table[1]
    assert invoke(CAPTURE, "--summary").stdout.splitlines() == table[1:]


def test_verbose_shows_every_field() -> None:
    result = invoke(CAPTURE, "--verbose")
    assert result.exit_code == 0
    assert result.stdout.count("###[ BTH ]###") == result.stdout.count("ICRC: right") == 212
    assert "opcode    = RC RDMA WRITE Only" in result.stdout


def test_gzip_and_standard_input_give_the_same() -> None:
    table = invoke(CAPTURE).stdout
    data = CAPTURE.read_bytes()
    assert invoke("-", stdin=data).stdout == table
    assert invoke("-", stdin=gzip.compress(data, mtime=0)).stdout == table


def test_an_interruption_is_one_word_and_exit_status_130() -> None:
    """As of any command that has nothing to add: it reads from a pipe that does not end."""
    # So few packets that neither pipe is ever full: nobody reads one end while it writes the other.
    capture = CAPTURE.read_bytes()[: record_ends()[19]]
    with programs.start(
        [*MRC, "dissect", "-", "--jsonl"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(capture)
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (130, b"interrupted\n")


def test_a_wire_profile_says_which_ports_count() -> None:
    found = json.loads(invoke(CAPTURE, "--json", "--wire-profile", "accepted_udp_ports=4971").stdout)
    assert {packet["layers"][-1]["layer"] for packet in found} == {"payload"}
    assert {packet["icrc_ok"] for packet in found} == {None}
    result = invoke(CAPTURE, "--wire-profile", "colour=1")
    assert result.exit_code == 1
    assert "no wire profile switch 'colour'" in result.stderr


@pytest.fixture
def first_packets(tmp_path: Path) -> Path:
    path = tmp_path / "first.pcap"
    path.write_bytes(CAPTURE.read_bytes()[: record_ends()[9]])
    return path


def test_a_wire_profile_reaches_the_verbose_form_and_goes_no_further(first_packets: Path) -> None:
    """In a process of its own: others may have bound the layers to their ports for good."""
    told = (
        "from click.testing import CliRunner; from mrc.cli import main; shown = lambda *options: '###[ BTH ]###' in "
        f"CliRunner().invoke(main, ['dissect', {str(first_packets)!r}, '--verbose', *options]).stdout; "
        "print(shown('--wire-profile', 'accepted_udp_ports=4971'), shown())"
    )
    ended = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert ended.stdout == "False True\n"


@pytest.mark.parametrize("form", ["--json", "--jsonl", "--summary", "--verbose"])
def test_a_file_cut_short_shows_what_was_whole_and_fails(form: str, cut_short: tuple[Path, int]) -> None:
    path, start = cut_short
    result = invoke(path, form)
    assert result.exit_code == 1
    assert f"{path}: cut short: the packet record at byte {start} takes" in result.stderr
    assert "30 are there" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    if form == "--json":
        assert [packet["number"] for packet in json.loads(result.stdout)] == [1, 2, 3]
    elif form == "--jsonl":
        assert len(result.stdout.splitlines()) == 3
    else:
        assert result.stdout == "".join(invoke(CAPTURE, form).stdout.partition("     4  ")[:1])


def test_what_is_no_capture_fails_without_output(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    for form in ((), ("--json",)):
        result = invoke(path, *form)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "begins with 68 65 6c 6c at byte 0: neither pcap nor pcapng" in result.stderr


def test_what_craft_prints_for_people_is_told_from_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "crafted.txt"
    path.write_text(CliRunner().invoke(main, ["craft", "sack"], prog_name="mrc").stdout)
    assert invoke(path).stderr.endswith(
        "is what `mrc craft` prints for people: `mrc craft ... -o -` writes a capture\n"
    )


def test_an_empty_capture_is_an_empty_list(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(CAPTURE.read_bytes()[:24])
    assert json.loads(invoke(path, "--json").stdout) == []
    result = invoke(path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "the capture holds no packets\n")


@pytest.mark.parametrize(
    "argv",
    [["nowhere.pcap"], [str(CAPTURE), "--json", "--summary"], [str(CAPTURE), "--check", "--jsonl"], [], [str(ROOT)]],
)
def test_usage_errors_are_2(argv: list[str]) -> None:
    result = invoke(*argv)
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_filter_chooses_packets_in_every_form() -> None:
    whole = json.loads(invoke(CAPTURE, "--json").stdout)
    wanted = [packet for packet in whole if any(layer["layer"] == "reth" for layer in packet["layers"])]
    assert json.loads(invoke(CAPTURE, "--json", "--filter", "reth").stdout) == wanted != whole
    assert [json.loads(line) for line in invoke(CAPTURE, "--jsonl", "--filter", "reth").stdout.splitlines()] == wanted
    lines = [line for line in invoke(CAPTURE, "--summary").stdout.splitlines() if " VA=" in line and "Orig" not in line]
    shown = invoke(CAPTURE, "--summary", "--filter", "reth or atomiceth").stdout.splitlines()
    assert [line.split() for line in shown] == [line.split() for line in lines]
    assert invoke(CAPTURE, "--verbose", "--filter", "reth").stdout.count("###[ RETH ]###") == len(wanted)
    table = invoke(CAPTURE, "--filter", "number in {3, 7}").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["no.", "3", "7"]


def test_a_filter_that_nothing_passes() -> None:
    result = invoke(CAPTURE, "--filter", "seth")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "none of 212 packets passes the filter\n"
    assert json.loads(invoke(CAPTURE, "--json", "--filter", "seth").stdout) == []


def test_a_wrong_filter_is_a_usage_error_that_points_at_the_place() -> None:
    result = invoke("-", "--filter", "bth.psn > 1 and bth.pns < 3", stdin=b"no capture")
    assert (result.exit_code, result.stdout) == (2, "")
    *_, message, shown, mark = result.stderr.splitlines()
    assert "--filter: there is no field bth.pns: did you mean bth.psn" in message
    assert shown[mark.index("^") : mark.rindex("^") + 1] == "bth.pns"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """Soft-RoCE with the last byte of every tenth packet changed: its ICRC is wrong."""
    data = bytearray(CAPTURE.read_bytes())
    for end in record_ends()[9::10]:
        data[end - 1] ^= 1
    path = tmp_path / "wrong.pcap"
    path.write_bytes(data)
    return path


def test_check_prints_a_table_and_fails(wrong: Path) -> None:
    result = invoke(wrong, "--check")
    assert result.exit_code == 1
    assert result.stderr == f"Error: {wrong}: 1 requirement not met (docs/contributing/requirements.md)\n"
    head, row, empty, last = result.stdout.splitlines()
    assert head.split() == ["requirement", "packets", "first", "what"]
    assert re.split(r"  +", row) == ["MRC-ICRC-01", "21", "10, 20, 30, 40, 50, ...", "the ICRC is wrong"]
    assert (empty, last) == ("", "212 packets checked")


def test_check_as_a_document(wrong: Path) -> None:
    result = invoke(wrong, "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "packets": 212,
        "violations": [
            {"requirement": "MRC-ICRC-01", "what": "the ICRC is wrong", "packets": 21, "first": [10, 20, 30, 40, 50]}
        ],
    }


def test_check_finds_nothing_wrong() -> None:
    result = invoke(CAPTURE, "--check")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "212 packets checked\n", "")


def test_check_of_what_passes_a_filter(wrong: Path) -> None:
    result = invoke(wrong, "--check", "--filter", "number < 25")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].split()[:4] == ["MRC-ICRC-01", "2", "10,", "20"]
    assert result.stdout.endswith("24 packets checked\n")
    assert invoke(wrong, "--check", "--filter", "number < 10").exit_code == 0


def test_check_of_a_file_cut_short_tells_both(cut_short: tuple[Path, int]) -> None:
    path, start = cut_short
    result = invoke(path, "--check")
    assert (result.exit_code, result.stdout) == (1, "3 packets checked\n")
    assert f"cut short: the packet record at byte {start}" in result.stderr


@pytest.mark.parametrize("form", ["--summary", "--check", "--jsonl"])
def test_memory_does_not_grow_with_the_file(form: str) -> None:
    """Its peak after 15 megabytes, read from a pipe, when what it keeps of packets is there, and after 25 more."""
    packets = b"".join(CAPTURE.read_bytes()[24:] for _ in range(8))
    peaks = []
    with programs.start([*MRC, "dissect", "-", form], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(CAPTURE.read_bytes()[:24])
        for megabytes in (15, 25):
            for _ in range(megabytes * 1_000_000 // len(packets)):
                process.stdin.write(packets)
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks += [int(kib) for kib in re.findall(r"VmHWM:\s+(\d+) kB", status)]
    assert process.returncode == 0
    assert peaks[1] - peaks[0] < 16_000


def test_a_live_capture_is_shown_while_it_goes_on() -> None:
    data = CAPTURE.read_bytes()
    ends = record_ends()
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with programs.start(
        [*MRC, "dissect", "-", "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        start = 0
        for number in (1, 2, 3):
            process.stdin.write(data[start : ends[number - 1] + 5])
            start = ends[number - 1] + 5
            # Nothing more is written until this one has been seen.
            assert json.loads(process.stdout.readline())["number"] == number
        process.stdin.write(data[start : ends[3]])
        process.stdin.close()
        assert json.loads(process.stdout.readline())["number"] == 4
    assert process.returncode == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_lost_where_the_program_is_stopped_in_the_midst_of_a_write(unbuffered: str) -> None:
    """A stop cuts short a write to a full pipe, write(2); what is left over has to follow."""
    argv = [*MRC, "dissect", "--jsonl", CAPTURE]
    whole = programs.run(argv, stdout=subprocess.PIPE, check=True).stdout
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    assert len(whole) > 8192
    reader, writer = narrow_pipe()
    with reader, programs.start(argv, stdout=writer, env=environment) as process:
        writer.close()
        until_it_waits_for_a_reader(process)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        assert reader.read() == whole


def test_help_shows_examples() -> None:
    assert "mrc dissect capture.pcap --json" in invoke("--help").stdout.partition("Examples:")[2]


@pytest.mark.parametrize("form", [(), ("--json",), ("--jsonl",), ("--verbose",)], ids=" ".join)
def test_a_reader_that_leaves_early_is_no_failure(form: tuple[str, ...], tmp_path: Path) -> None:
    """200 times the capture, so that no pipe holds all of it."""
    path = tmp_path / "long.pcap"
    path.write_bytes(CAPTURE.read_bytes()[:24] + 200 * CAPTURE.read_bytes()[24:])
    argv = [*MRC, "dissect", *form, "-"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with path.open("rb") as capture, programs.start(argv, stdin=capture, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert all(process.stdout.readline() for _ in range(2))
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_full_disk_fails_with_one_line() -> None:
    done = shell(f"mrc dissect --jsonl {CAPTURE} >/dev/full; echo $?")
    assert done.stdout == b"1\n"
    assert len(done.stderr.splitlines()) == 1
    assert b"No space left" in done.stderr


def test_a_closed_standard_output_fails_with_one_line() -> None:
    done = shell(f"(mrc dissect {CAPTURE} >&-); echo $?")
    assert done.stdout == b"1\n"
    assert done.stderr.startswith(b"Error: standard output is closed")


def test_scapy_is_loaded_for_the_verbose_form_only(first_packets: Path) -> None:
    """All forms in one process, the verbose one last."""
    code = (
        "import sys; from mrc.cli import main\n"
        "for form in sys.argv[1:]:\n"
        f"    main(['dissect', form, {str(first_packets)!r}], standalone_mode=False)\n"
        "    loaded = [name for name in sys.modules if name.split('.')[0] in ('scapy', 'rich', 'pyroute2')]\n"
        "    print(form, loaded[:1], file=sys.stderr)"
    )
    argv = [sys.executable, "-c", code, "--json", "--jsonl", "--summary", "--check", "--verbose"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["--json []", "--jsonl []", "--summary []", "--check []", "--verbose ['scapy']"]
