# SPDX-License-Identifier: BSD-2-Clause
"""`mrc craft` as a user types it: what it writes is what tshark and `mrc dissect` read, and its errors help."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import programs
import pytest
from click.testing import CliRunner, Result
from patience import PATIENCE_S
from programs import MRC

from mrc.cli import main

tshark = pytest.mark.skipif(
    shutil.which("tshark") is None and os.environ.get("CI") != "true", reason="tshark is not installed"
)


def invoke(line: str, *more: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["craft", *line.split(), *map(str, more)], input=stdin)


def layers(line: str, *more: str) -> list[dict[str, Any]]:
    """The layers of the packets crafted, as `mrc dissect --json` has them; `outer` is the first of two IPv6 headers."""
    result = invoke(line, *more, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = []
    for packet in json.loads(result.stdout)["packets"]:
        by_name: dict[str, Any] = {"icrc_ok": packet["icrc_ok"], "malformed": packet["malformed"]}
        for layer in packet["layers"]:
            name = layer["layer"]
            if name == "ipv6" and "ipv6" in by_name:
                by_name["outer"] = by_name["ipv6"]
            by_name[name] = layer.get("fields", layer)
        found.append(by_name)
    return found


def test_a_write_over_srv6() -> None:
    """wire.md section 11: plane 1, uplink 3; section 10: EV halves in source port and flow label."""
    (packet,) = layers("write-only srv6 ev=0x01000003 bth.psn=5 reth.va=0x1000 payload=text:hello")
    assert packet["outer"]["dst"] == "5f00:0:1100:2103:1101:4101::"
    assert (packet["outer"]["tc"], packet["ipv6"]["tc"], packet["ipv6"]["fl"]) == (0x12, 0x12, 0x100)
    assert (packet["ipv6"]["src"], packet["ipv6"]["dst"]) == ("fd4d:5243:1::1", "fd4d:5243:1::2")
    assert (packet["udp"]["sport"], packet["udp"]["dport"], packet["udp"]["len"]) == (3, 4791, 8 + 12 + 4 + 16 + 8 + 4)
    assert (packet["bth"]["opcode"], packet["bth"]["psn"], packet["bth"]["pad"]) == (0xCA, 5, 3)
    assert packet["reth"] == {"va": 0x1000, "rkey": 0, "dmalen": 5}
    assert packet["payload"]["length"] == 5
    assert (packet["icrc_ok"], packet["malformed"]) == (True, None)


def test_a_write_by_an_address_template(tmp_path: Path) -> None:
    """wire.md section 11: the example of a deployment's template."""
    path = tmp_path / "template.json"
    template = {"template_data": "5f00::1:104:0:0", "template_mask": "0:0:70:7003:70::", "ps_mask": "0x1ffc"}
    path.write_text(json.dumps(template | {"ps_list": [2345]}))
    (packet,) = layers(f"write-only srv6 ev=2345 payload=text:hello --template {path}")
    assert packet["outer"]["dst"] == "5f00:0:20:2001:21:104::"
    assert (packet["udp"]["sport"], packet["icrc_ok"]) == (2345, True)


def test_the_sack_of_the_specification() -> None:
    """wire.md section 6: PSN 0..11 sent, 5 and 8 lost."""
    (packet,) = layers("sack dqp=0x12 cack_psn=4 sack_offset=1 bitmap=0b1110110 ack_psn_offset=7 seth.m=skip-once")
    assert packet["seth"]["bitmap"] == 0x76
    assert (packet["seth"]["cack_psn"], packet["seth"]["m"], packet["seth"]["dpdcid"]) == (4, 1, 0x12)
    assert (packet["bth"]["dqp"], packet["bth"]["psn"]) == (0x12, 4)
    assert packet["ipv6"]["tc"] == 46 << 2


def test_ipv4_where_a_field_of_it_is_given() -> None:
    (packet,) = layers("nack reason=NO_BITMAP nack_psn=7 ev=0x1234 ipv4.src=10.0.0.2 ipv4.dst=10.0.0.1")
    assert (packet["ipv4"]["src"], packet["ipv4"]["dst"], packet["udp"]["sport"]) == ("10.0.0.2", "10.0.0.1", 0x1234)
    assert packet["neth"]["reason"] == 6
    assert packet["icrc_ok"] is True


def test_a_timestamp_where_something_is_said_about_it() -> None:
    assert "tseth" not in layers("write-only")[0]
    for words in ("write-only tseth.tx_timestamp=9", "write-only ts=1"):
        (packet,) = layers(words)
        assert packet["bth"]["ts"] == 1
        assert packet["tseth"]["ftype"] == 1


def test_a_message_advances_psn_and_va() -> None:
    packets = layers("write psn=0xffffff va=0x1000 msn=5 ev=0xc001,0xc002 --count 3 --mtu 256")
    assert [p["bth"]["opcode"] for p in packets] == [0xC6, 0xC7, 0xC8]
    assert [p["bth"]["psn"] for p in packets] == [0xFFFFFF, 0, 1]
    assert [p["reth"]["va"] for p in packets] == [0x1000, 0x1100, 0x1200]
    assert {(p["reth"]["dmalen"], p["meth"]["msn"], p["payload"]["length"]) for p in packets} == {(768, 5, 256)}
    assert [p["udp"]["sport"] for p in packets] == [0xC001, 0xC002, 0xC001]
    packets = layers("write-with-immediate payload=count:300 data=7 --mtu 256")
    assert [p["bth"]["opcode"] for p in packets] == [0xC6, 0xC9]
    assert packets[1]["immdt"]["data"] == 7


@pytest.mark.parametrize(
    ("words", "field", "expected"),
    [
        ("write-only psn=7 payload=zeros:16", "bth.psn", [7, 8, 9]),
        ("write-only va=32 payload=zeros:16", "reth.va", [32, 48, 64]),
        ("write-only msn=65535", "meth.msn", [65535, 0, 1]),
        ("write-only msn=1", "meth.rqmsn", [0, 0, 0]),
        ("write-only-with-immediate rqmsn=1", "meth.rqmsn", [1, 2, 3]),
        ("write-middle va=0 --mtu 1024", "reth.va", [0, 1024, 2048]),
        ("write-middle msn=4 --mtu 1024", "meth.msn", [4, 4, 4]),
        ("sack cack_psn=0xfffffe", "seth.cack_psn", [0xFFFFFE, 0xFFFFFF, 0]),
        ("sack cack_psn=3", "bth.psn", [3, 4, 5]),
        ("nack nack_psn=3", "neth.nack_psn", [3, 4, 5]),
        ("ack psn=3", "bth.psn", [3, 4, 5]),
        ("probe probe_id=65535", "peth.probe_id", [65535, 0, 1]),
        ("endpoint-request psn=3 op=EV_PROBE", "bth.psn", [3, 4, 5]),
        ("rc-send-only psn=3 payload=text:x", "bth.psn", [3, 4, 5]),
    ],
)
def test_what_counts_on(words: str, field: str, expected: list[int]) -> None:
    layer, _, name = field.partition(".")
    packets = layers(f"{words} --count 3")
    assert [packet[layer][name] for packet in packets] == expected
    assert all(packet["icrc_ok"] and packet["malformed"] is None for packet in packets)


def test_every_opcode_can_be_crafted_and_read_back() -> None:
    listing = json.loads(invoke("--list --json").stdout)
    single = [opcode for opcode in listing["opcodes"] if opcode["value"] is not None]
    assert len(single) == 95
    for opcode in single:
        (packet,) = layers(f"{opcode['name']} srv6")
        assert packet["bth"]["opcode"] == opcode["value"], opcode["name"]
        assert (packet["icrc_ok"], packet["malformed"]) == (True, None), opcode["name"]
    assert listing["modes"] == ["udp", "stev", "srv6", "srv6-srh"]


def _settable(line: str) -> list[dict[str, Any]]:
    found = json.loads(invoke(f"{line} --list --json").stdout)["fields"]
    return [field for field in found if field["least"] is not None and "." in field["name"]]


@pytest.mark.parametrize("words", ["write-only-with-immediate srv6", "sack", "nack", "probe", "endpoint-request"])
def test_every_field_arrives_at_both_ends_of_its_range(words: str) -> None:
    """One field at a time, its least and its most: read back as given, by the other codec."""
    transport = {"bth", "meth", "tseth", "reth", "immdt", "seth", "cc_state", "neth", "peth", "erth"}
    for field in _settable(words):
        layer, _, name = field["name"].partition(".")
        # What decides how the rest is read cannot be had at will.
        if layer not in transport or field["name"] in ("bth.opcode", "bth.pad", "bth.ts", "bth.tver", "seth.pr"):
            continue
        for value in (field["least"], field["most"]):
            (packet,) = layers(f"{words} {field['name']}={value}")
            assert packet[layer].get(name, 0) == value, field["name"]
            assert packet["icrc_ok"] is True


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("write-only bth.pns=4", "nearest is bth.psn"),
        ("write-only pns=4", "nearest is psn"),
        ("wrte-only", "nearest is write-only"),
        ("write-only srv7", "nearest is srv6"),
        ("write-only psn=16777216", "bth.psn has 24 bits, so it must be 0..0xffffff"),
        ("sack ack_psn_offset=-32769", "-32768..32767"),
        ("sack mpr=256", "seth.mpr has 8 bits, so it must be 0..255"),
        ("sack mpr=many", "no number"),
        ("nack reason=TOO_LATE", "no_bitmap"),
        ("sack reth.va=3", "a Reliability SACK in mode udp has no reth"),
        ("sack payload=text:x", "no field 'payload'"),
        ("write-only src=fd00::1", "say which of"),
        ("write-only psn=1 bth.psn=2", "given twice"),
        ("write-only ipv6.src=10.0.0.1", "ipv4.src=10.0.0.1"),
        ("write-only ipv6.src=fd00::1 ipv4.dst=10.0.0.1", "not both"),
        ("write-only ether.src=1", "MAC"),
        ("write-only payload=hello", "text:hello"),
        ("write-only payload=file:/nowhere", "/nowhere"),
        ("write-only srv6 ev=0x10000", "plane(8) zero(8) uplink(16)"),
        ("write-only payload=zeros:70000", "mrc craft write"),
        ("write payload=zeros:700 --count 2", "leave --count or the payload out"),
        ("write-only hmac=1:x", "no field 'hmac'"),
        ("write-only srv6-srh hmac=1", "KEYID:KEY"),
        ("", "name an opcode"),
        ("write-only -o x.txt", ".pcap"),
        ("write-only --hex --json", "cannot be combined"),
    ],
)
def test_what_is_wrong_is_named(line: str, said: str) -> None:
    result = invoke(line)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_broken_on_purpose() -> None:
    (packet,) = layers("write-only payload=text:abcd icrc=0xdeadbeef")
    assert (packet["icrc"]["crc"], packet["icrc_ok"]) == (0xDEADBEEF, False)
    (packet,) = layers("write-only payload=text:abcd udp.len=3000 bth.tver=1 bth.pad=2")
    assert (packet["udp"]["len"], packet["bth"]["tver"], packet["bth"]["pad"]) == (3000, 1, 2)
    (packet,) = layers("sack ipv4.ttl=3 --no-icrc")
    assert packet["malformed"] == "no_icrc: 0 bytes follow the headers, the ICRC takes 4"
    assert (packet["ipv4"]["len"], packet["udp"]["len"]) == (20 + 8 + 12 + 36, 8 + 12 + 36)
    (packet,) = layers("sack srv6 ipv6.plen=9 --no-icrc")
    assert (packet["outer"]["plen"], packet["ipv6"]["plen"]) == (40 + 8 + 12 + 36, 9)


def test_trimmed() -> None:
    """wire.md section 12: BTH and 8 bytes kept, DSCP 12 or 16 outside."""
    result = invoke("write-only srv6 payload=zeros:4096 tseth.tx_timestamp=7 --trim lasthop --json")
    (packet,) = json.loads(result.stdout)["packets"]
    assert packet["trimmed"] is True
    assert len(packet["bytes"]) == 2 * (14 + 40 + 40 + 8 + 12 + 8)
    assert packet["layers"][1]["fields"]["tc"] == 16 << 2 | 2


def test_trimmed_to_a_size() -> None:
    """wire.md section 12: a switch cuts to its configured size. Here 256 bytes of the frame."""
    result = invoke(
        "write-only srv6 payload=zeros:4096 --trim fabric --trim-to 256 --wire-profile dscp_trimmed=48 --json"
    )
    (packet,) = json.loads(result.stdout)["packets"]
    assert (packet["trimmed"], packet["malformed"], packet["icrc_ok"]) == (True, None, None)
    assert len(packet["bytes"]) == 2 * 256
    outer, inner = (layer["fields"] for layer in packet["layers"][1:3])
    assert (outer["tc"], outer["plen"]) == (48 << 2 | 2, 256 - 14 - 40)
    assert inner["plen"] == 8 + 12 + 4 + 16 + 4096 + 4
    assert "--trim-to says how much --trim keeps" in invoke("sack --trim-to 256").stderr
    refused = invoke("sack srv6 --trim fabric --trim-to 100")
    assert "headers through the BTH, 100 bytes here, got 86" in refused.stderr


def test_an_srh_with_an_hmac(tmp_path: Path) -> None:
    from scapy.utils import rdpcap

    from mrc.layers import check_hmac

    path = tmp_path / "signed.pcap"
    assert invoke("write-only srv6-srh ev=1 hmac=17:secret", "-o", path).exit_code == 0
    (packet,) = rdpcap(str(path))
    assert check_hmac(packet, {17: b"secret"}) is True
    assert check_hmac(packet, {17: b"Secret"}) is False


@pytest.mark.parametrize("suffix", ["pcap", "pcapng"])
@pytest.mark.parametrize("link", ["ether", "ip"])
def test_files_of_both_kinds(tmp_path: Path, suffix: str, link: str) -> None:
    path = tmp_path / f"x.{suffix}"
    result = invoke(f"write srv6 --count 5 --link {link}", "-o", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "5 packets" in result.stderr
    read = CliRunner().invoke(main, ["dissect", str(path), "--json"])
    packets = json.loads(read.stdout)
    assert len(packets) == 5
    assert all(packet["icrc_ok"] for packet in packets)
    assert packets[0]["layers"][0]["layer"] == ("ether" if link == "ether" else "ipv6")
    assert [round(float(packet["time"]) * 1e6) for packet in packets] == [0, 1, 2, 3, 4]


def test_the_same_words_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap"):
        assert invoke("write --count 4", "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "a.pcap").read_bytes() == (tmp_path / "b.pcap").read_bytes()


def test_to_standard_output() -> None:
    with programs.start([*MRC, "craft", "probe", "-o", "-"], stdout=subprocess.PIPE) as made:
        argv = [*MRC, "dissect", "-", "--summary"]
        read = programs.run(argv, stdin=made.stdout, capture_output=True, check=True, timeout=PATIENCE_S)
    assert made.returncode == 0
    assert b"Reliability PROBE Request" in read.stdout


def test_a_recipe_has_a_packet_a_line(tmp_path: Path) -> None:
    recipe = tmp_path / "story.txt"
    recipe.write_text(
        "# a write that is lost and asked for\n\nwrite-only psn=5 payload='text:two words'\n  nack nack_psn=5  # why\n"
    )
    packets = layers("", "--from", str(recipe))
    assert [packet["bth"]["opcode"] for packet in packets] == [0xCA, 0xDD]
    assert packets[0]["payload"]["length"] == 9
    recipe.write_text("probe\nsack mpr=999\n")
    result = invoke("", "--from", recipe)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{recipe}, line 2: seth.mpr" in result.stderr
    assert invoke("probe", "--from", recipe).exit_code == 2


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = invoke("probe", "-o", tmp_path / "nowhere" / "x.pcap")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot be written: No such file or directory" in result.stderr


def test_wire_profile_switches() -> None:
    (packet,) = layers("endpoint-response op=EV_PROBE --wire-profile eeth_op_shift=4 --wire-profile udp_port=4971")
    assert packet["eeth"]["op"] == 1
    assert packet["udp"]["dport"] == 4971
    (packet,) = layers("endpoint-response op=EV_PROBE")
    assert (packet["eeth"]["op"], packet["udp"]["dport"]) == (1, 4791)


@tshark
@pytest.mark.tshark
def test_a_hex_dump_is_what_text2pcap_reads(tmp_path: Path) -> None:
    text = tmp_path / "dump.txt"
    capture = tmp_path / "dump.pcap"
    text.write_text(invoke("write --count 3 --mtu 256 --hex").stdout)
    subprocess.run(["text2pcap", "-q", str(text), str(capture)], check=True, capture_output=True)
    read = json.loads(CliRunner().invoke(main, ["dissect", str(capture), "--json"]).stdout)
    assert [packet["layers"][3]["fields"]["opcode"] for packet in read] == [0xC6, 0xC7, 0xC8]
    assert all(packet["icrc_ok"] for packet in read)


@pytest.fixture(scope="module")
def lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lua") / "mrc.lua"
    path.write_text(CliRunner().invoke(main, ["wireshark", "print"]).stdout)
    return path


def tshark_fields(capture: Path, names: list[str], lua: Path) -> list[list[str]]:
    columns = [word for name in names for word in ("-e", name)]
    command = ["tshark", "-X", f"lua_script:{lua}", "-r", str(capture), "-T", "fields", *columns]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("\t") for line in lines]


def number(text: str) -> int:
    named = {"True": 1, "False": 0}
    return named[text] if text in named else int(text, 0)


@tshark
@pytest.mark.tshark
@pytest.mark.parametrize(
    "words",
    [
        "write-only srv6 ev=0x01000003 bth.psn=5 bth.dqp=0xabcdef reth.va=0x1122334455667788 reth.rkey=9 meth.msn=3",
        "write-last-with-immediate bth.rtx=1 bth.ackreq=1 tseth.tx_timestamp=77 tseth.tsr=1 immdt.data=0xfeedf00d",
        "sack seth.cack_psn=4 seth.bitmap=0xfedcba9876543210 seth.sack_offset=-3 seth.m=2 cc_state.ooo_count=9",
        "sack seth.probe_id=0xfffe seth.mpr=8 seth.entropy=3 cc_state.restore_cwnd=1 cc_state.rcvd_bytes=0xffffff",
        "nack neth.reason=0x0b neth.nack_psn=0xffffff neth.entropy=1 neth.vendor_info=3 neth.tx_timestamp=65535",
        "probe peth.probe_id=65535 peth.spdcid=1 peth.dpdcid=2 peth.tx_timestamp=3",
        "ack aeth.syndrome=0x62 aeth.msn=0xffffff bth.psn=1",
        "endpoint-request erth.op=1 erth.port_status_mask=0x80000001 bth.psn=0xffff",
        "endpoint-response eeth.op=1 eeth.tx_timestamp=9",
    ],
)
def test_tshark_reads_the_fields_as_given(words: str, lua: Path, tmp_path: Path) -> None:
    """Through the Lua dissector, which is made from the other codec's tables."""
    capture = tmp_path / "x.pcap"
    assert invoke(words, "-o", capture).exit_code == 0
    given = [word.split("=") for word in words.split() if "." in word]
    (row,) = tshark_fields(capture, [f"mrc.{name}" for name, _ in given], lua)
    assert [(name, number(value)) for (name, _), value in zip(given, row, strict=True)] == [
        (name, int(text, 0)) for name, text in given
    ]


@tshark
@pytest.mark.tshark
def test_tsharks_own_dissectors_read_the_rest(lua: Path, tmp_path: Path) -> None:
    """Ethernet, VLAN, IPv6, segment routing and UDP, and the standard opcodes: nothing of ours in between."""
    capture = tmp_path / "x.pcap"
    words = (
        "rc-rdma-write-only srv6-srh ev=2 bth.psn=77 bth.dqp=0x1234 reth.va=0x1000 reth.rkey=5 payload=text:abc "
        "ether.src=02:aa:00:00:00:01 vlan.vid=100 outer.hlim=9 ipv6.hlim=8 srh.tag=7 udp.sport=49999"
    )
    assert invoke(words, "-o", capture).exit_code == 0
    expected = {
        "eth.src": "02:aa:00:00:00:01",
        "vlan.id": "100",
        "ipv6.hlim": "9,8",
        "ipv6.routing.srh.tag": "0007",
        "ipv6.routing.srh.addr": "5f00:0:4001::",
        "udp.srcport": "49999",
        "infiniband.bth.psn": "77",
        "infiniband.bth.destqp": "0x001234",
        "infiniband.bth.padcnt": "1",
        "infiniband.reth.va": "0x0000000000001000",
        "infiniband.reth.dmalen": "3",
    }
    (row,) = tshark_fields(capture, list(expected), lua)
    assert dict(zip(expected, row, strict=True)) == expected


def test_help_and_lists_need_no_scapy() -> None:
    script = (
        "import sys; from mrc.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "sys.exit('scapy' in sys.modules or 'numpy' in sys.modules)"
    )
    for words in (["craft", "--help"], ["craft", "--list"], ["craft", "sack", "--list"]):
        subprocess.run([sys.executable, "-c", script, *words], check=True, capture_output=True)


def test_help_has_examples_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("story.txt").write_text("probe\n")
    template = {"template_data": "5f00::1:104:0:0", "template_mask": "0:0:70:7003:70::", "ps_mask": "0x1ffc"}
    Path("to-host-7.json").write_text(json.dumps(template | {"ps_list": [2345]}))
    text = invoke("--help").stdout
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("mrc craft ")]
    assert len(examples) >= 6
    for example in examples:
        line = example.removeprefix("mrc craft ").partition(" | ")[0]
        assert invoke(line).exit_code == 0, example
