# SPDX-License-Identifier: BSD-2-Clause
"""Labs from descriptions: built as described, found again as built, told where they no longer are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import programs
import pytest
from click.testing import CliRunner, Result
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_wire import Wire, deliveries, run
from patience import PATIENCE_S
from programs import MRC

from mrc.cli.lab import lab as lab_command
from mrc.errors import CallerError
from mrc.fabric import FORWARDING_MODES, Clos, Description, Impairment
from mrc.fabric.file import TopologyFile
from mrc.lab import Lab, lab_names, namespace, state
from mrc.lab.bpf import EbpfRefused, LinkProgram
from mrc.lab.differences import Remedy
from mrc.lab.plan import plan
from mrc.threads import in_thread

LIMITS = {"rate_bps": st.integers(10**5, 10**12), "queue_bytes": st.integers(10**6, 10**7)}
impairments = st.builds(Impairment, loss=st.integers(0, 10**6).map(lambda each: each / 10**6)) | st.builds(
    Impairment, rate_bps=LIMITS["rate_bps"], queue_bytes=LIMITS["queue_bytes"], ecn_at_bytes=st.integers(0, 10**5)
)


@st.composite
def descriptions(draw: st.DrawFn) -> Description:
    clos = draw(
        st.builds(
            Clos,
            planes=st.integers(1, 2),
            leaves=st.integers(1, 2),
            spines=st.integers(1, 2),
            mode=st.sampled_from(FORWARDING_MODES),
            block=st.sampled_from([0x5F000000, 0xFCBBBB01]),
        )
    )
    directions = [(link.name, end) for link in clos.links for end in link.ends]
    return Description(clos, draw(st.dictionaries(st.sampled_from(directions), impairments)))


@given(descriptions(), st.booleans())
def test_a_state_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, described: Description, fast: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(state, "STATE_DIRECTORY", tmp_path_factory.mktemp("labs"))
        written = state.LabState("x", "tag", described, state.UP, {"h0": (4, 4026531840)}, fast)
        state.reserve("x")
        written.save()
        assert state.load("x") == written


@settings(max_examples=draws(10))
@given(descriptions(), descriptions())
def test_descriptions_differ_where_they_say_so(one: Description, other: Description) -> None:
    assert list(one.differences(one)) == []
    assert (list(one.differences(other)) == []) == (one == other)


@pytest.mark.parametrize("version", [1, 2])
def test_a_state_of_a_version_before_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(state, "STATE_DIRECTORY", tmp_path)
    state.reserve("old")
    shape = {"planes": 1, "leaves": 2, "spines": 4, "hosts_per_leaf": 1, "mtu": 4400}
    namespaces = {"h0": [4, 5]}
    document = {
        "version": version,
        "name": "old",
        "tag": "t",
        "topology": shape,
        "phase": "up",
        "namespaces": namespaces,
    }
    (tmp_path / "old" / "lab.json").write_text(json.dumps(document))
    found = state.load("old")
    assert found == state.LabState("old", "t", Description(Clos(planes=1)), state.UP, {"h0": (4, 5)})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"version": 4}, "another version"),
        ({"topology": {"planes": 99}}, "damaged"),
        ({"impairments": [{"link": "p9l9-p9s9", "toward": "x"}]}, "damaged"),
        ({"namespaces": {"h0": 3}}, "damaged"),
    ],
)
def test_a_damaged_state_is_named(
    changed: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "STATE_DIRECTORY", tmp_path)
    state.reserve("x")
    state.LabState("x", "tag", Description()).save()
    path = tmp_path / "x" / "lab.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(CallerError, match=says):
        state.load("x")


def test_a_fabric_of_112_nodes_has_a_plan() -> None:
    clos = Clos(planes=8, leaves=4, spines=8, hosts_per_leaf=4)
    plans = plan(clos)
    assert len(plans) == 112
    ends = [end for node in plans.values() for end in node.interfaces]
    assert len(ends) == 2 * 384
    for attribute in ("index", "mac", "link_local"):
        assert len({getattr(end, attribute) for end in ends}) == len(ends), attribute
    assert {len(plans[host].interfaces) for host in clos.hosts} == {8}
    assert {len(plans[leaf].interfaces) for leaf in clos.leaf_switches} == {4 + 8}
    assert {len(plans[spine].interfaces) for spine in clos.spine_switches} == {4}


# ------------------------------------------------------------------ on the command line, nothing built


def invoke(*argv: str) -> Result:
    return CliRunner().invoke(lab_command, list(argv))


@pytest.fixture
def topology(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "fabric.yaml"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("text", "option", "says"),
    [
        ("leaves: 1\nplanes: 2\n", ["--planes", "4"], r"--planes 4 contradicts 'planes: 2' in .*fabric\.yaml:2"),
        ("hosts_per_leaf: 2\n", ["--hosts-per-leaf", "1"], "--hosts-per-leaf 1 contradicts 'hosts_per_leaf: 2'"),
        ("mode: stev\n", ["--mode", "srv6"], "--mode srv6 contradicts 'mode: stev'"),
        ("block: 5f00:0::/32\n", ["--block", "5f01::/32"], "--block 5f01::/32 contradicts 'block: 5f00:0::/32'"),
        ("name: a\n", ["--name", "b"], "--name b contradicts 'name: a'"),
        ("name: a\n", ["--name", "mrc"], "--name mrc contradicts 'name: a'"),
    ],
)
def test_an_option_that_contradicts_the_file_is_a_usage_error(
    topology: Callable[[str], str], text: str, option: list[str], says: str
) -> None:
    result = invoke("up", topology(text), *option)
    assert result.exit_code == 2
    assert re.search(says, result.stderr.replace("\n", " "))
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--block", "5f00::/48"], "not an IPv6 prefix of 32 bits"),
        (["--mode", "mpls"], "'mpls' is not one of"),
        (["--mtu", "big"], "'big' is not a valid integer"),
    ],
)
def test_options_that_are_no_values_are_usage_errors(argv: list[str], says: str) -> None:
    result = invoke("up", *argv)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_wrong_file_exits_1_and_names_line_and_key(topology: Callable[[str], str]) -> None:
    path = topology("planes: 2\nsipnes: 3\nmtu: 1\n")
    result = invoke("up", path)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"Error: {path}:2:1: sipnes: unknown key, did you mean spines?",
        f"{path}:3:6: mtu: must be a whole number from 1280 to 65535, got 1",
    ]


def test_the_schema_is_printed_as_published() -> None:
    published = Path(__file__).parents[2] / "docs" / "topology.schema.json"
    assert invoke("schema").stdout == published.read_text()


def test_nothing_heavy_is_imported_for_a_lab_without_a_file() -> None:
    script = (
        "import sys; from mrc.cli.lab.described import described; import mrc.lab, mrc.fabric\n"
        "described(None, 'x', {}); print(*{'yaml', 'jsonschema', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# ------------------------------------------------------------------ built


@pytest.fixture
def name(lab_name: Callable[[str], str], request: pytest.FixtureRequest) -> Iterator[str]:
    chosen = lab_name(f"topology-{crc32(request.node.name.encode()):x}")
    yield chosen
    if chosen in lab_names():
        Lab.remove(chosen)


@pytest.fixture(scope="session")
def need_ebpf() -> Callable[[], None]:
    def check() -> None:
        try:
            LinkProgram.load().close()
        except EbpfRefused as refused:
            if os.environ.get("CI") == "true":
                pytest.fail(str(refused))
            pytest.skip(str(refused))

    return check


def identities(name: str) -> dict[str, int]:
    """The inode of each of a lab's namespaces, which no rebuilding would keep."""
    directory = namespace.NETNS_DIRECTORY
    return {entry: os.stat(directory / entry).st_ino for entry in os.listdir(directory) if entry.startswith(f"{name}-")}


def up(name: str, *argv: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, document and stderr of `mrc lab up`."""
    result = invoke("up", "--name", name, "--json", *argv)
    return result.exit_code, json.loads(result.stdout) if result.stdout else {}, result.stderr


@pytest.mark.root
def test_up_again_changes_nothing(name: str) -> None:
    status, first, _ = up(name, "--planes", "1", "--spines", "2")
    assert (status, first["changed"], first["mode"], first["path_mtu_bytes"]) == (0, True, "srv6", 4096)
    before = identities(name)
    assert len(before) == 2 + 2 + 2
    status, again, _ = up(name, "--planes", "1", "--spines", "2")
    assert (status, again["changed"], again["differences"], again["remedies"]) == (0, False, [], [])
    assert {key: again[key] for key in ("hosts", "switches", "links")} == {
        key: first[key] for key in ("hosts", "switches", "links")
    }
    assert identities(name) == before
    text = invoke("up", "--name", name, "--planes", "1", "--spines", "2")
    assert "already up as described, nothing changed" in text.stdout


@pytest.mark.root
def test_another_description_under_the_same_name_is_refused(name: str, topology: Callable[[str], str]) -> None:
    up(name, "--planes", "1", "--spines", "2")
    before = identities(name)
    path = topology("planes: 1\nspines: 3\nmode: ecmp\nlinks: {p0l0-p0s1: {loss: 1%}}\n")
    status, _, told = up(name, path)
    assert status == 1
    for difference in ("spines is 2, not 3", "mode is srv6, not ecmp", "loss of p0l0-p0s1 toward p0s1 is 0%, not 1%"):
        assert difference in told
    assert f"mrc lab down --name {name}" in told
    assert identities(name) == before
    with pytest.raises(CallerError, match="exists already"):
        Lab.up(name, Clos(planes=1, spines=2))


@pytest.mark.root
def test_two_at_once_build_one_lab(name: str) -> None:
    argv = [*MRC, "lab", "up", "--name", name, "--planes", "1", "--json"]
    both = [programs.start(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(document["changed"] for document in documents) == [False, True]


@pytest.mark.root
def test_a_file_is_built_as_it_says(
    name: str, topology: Callable[[str], str], make_wire: Callable[[Lab], Wire], need_program: Callable[[str], str]
) -> None:
    path = topology(
        "planes: 4\nleaves: 2\nspines: 4\nhosts_per_leaf: 2\nmtu: 4500\nblock: fcbb:bb01::/32\n"
        "links:\n  p3l0-p3s2: {loss: 100%}\n  p2l0-p2s1: {toward: {p2s1: {loss: 100%}}}\n"
    )
    assert up(name, path)[0] == 0
    assert len(identities(name)) == 4 + 8 + 16
    with Lab.open(name) as lab:
        assert lab.description.impairments["p2l0-p2s1", "p2s1"] == Impairment(loss=1.0)
        # From leaf 0 to leaf 1 only those paths are dead, whose link loses everything that way.
        wire = make_wire(lab)
        reached = deliveries(wire, source=0, destination=3)
        assert {path for path, arrived in reached.items() if not arrived} == {(3, 2), (2, 1)}
        assert {path for path, arrived in deliveries(wire, 3, 0).items() if not arrived} == {(3, 2)}
        ip = need_program("ip")
        assert "fcbb:bb01:1300::/48" in run(lab, "p3l0", ip, "-6", "route", "show", "table", "local")
        assert "mtu 4500" in run(lab, "p3l0", ip, "link", "show", "h1")
    assert up(name, path)[1]["changed"] is False


@pytest.mark.root
@pytest.mark.parametrize("example", ["congested", "ecmp", "every-key", "lossy-path"])
def test_examples_come_up_as_they_say(example: str, name: str, tmp_path: Path, need_ebpf: Callable[[], None]) -> None:
    if example in ("congested", "every-key"):
        need_ebpf()
    text = (Path(__file__).parents[2] / "docs" / "topologies" / f"{example}.yaml").read_text()
    path = tmp_path / "example.yaml"
    path.write_text(text.replace(f"name: {example}", f"name: {name}", 1))
    assert up(name, str(path))[0] == 0
    described = TopologyFile.read(path).description()
    with Lab.open(name) as lab:
        assert lab.description == described
        for link in described.shape.links:
            for toward in link.ends:
                wanted = described.impairments.get((link.name, toward), Impairment())
                assert lab.impairment(link.name, toward) == wanted, (link, toward)
    status, again, _ = up(name, str(path))
    assert (status, again["changed"]) == (0, False)


BREAK = {
    "a cut cable": (["link", "set", "p0l0", "down"], "p0s1", "p0l0-p0s1", Remedy.HEAL),
    "a route taken away": (
        ["-6", "route", "del", "5f00:0:2001::/48", "table", "local"],
        "p0l0",
        "p0l0-p0s1",
        Remedy.HEAL,
    ),
    "an address taken away": (["-6", "addr", "del", "fd4d:5243::1/128", "dev", "p0"], "h0", "h0-p0l0", Remedy.HEAL),
    "neighbours taken away": (
        ["-6", "neigh", "flush", "dev", "p0s1", "nud", "permanent"],
        "p0l0",
        "p0l0-p0s1",
        Remedy.HEAL,
    ),
    "the switch's own uSID taken away": (
        ["-6", "route", "del", "5f00:0:1000::/48", "table", "local"],
        "p0l0",
        "p0l0",
        Remedy.REBUILD,
    ),
    "the device it hangs on set down": (["link", "set", "usid0", "down"], "p0s1", "p0s1", Remedy.REBUILD),
    "another MTU": (["link", "set", "p0s1", "mtu", "1500"], "p0l0", "p0l0-p0s1", Remedy.IMPAIR),
    "a cable taken away": (["link", "del", "p0s1"], "p0l0", "p0l0-p0s1", Remedy.HEAL),
}


@pytest.fixture(scope="module")
def breakable(lab_name: Callable[[str], str]) -> Iterator[Callable[[], Lab]]:
    """A small lab that is whole: the same as long as healing keeps it so, else a new one."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    chosen = lab_name("breakable")
    shape = Clos(planes=1, spines=2)
    opened: list[Lab] = []

    def whole() -> Lab:
        if opened and opened[-1].differences():
            opened.pop().down()
        if not opened:
            opened.append(Lab.up(chosen, shape))
        assert opened[-1].differences() == ()
        return opened[-1]

    yield whole
    opened.pop().down()


@pytest.mark.root
@pytest.mark.parametrize("what", BREAK)
def test_damage_is_told_with_its_remedy(
    what: str, breakable: Callable[[], Lab], need_program: Callable[[str], str]
) -> None:
    arguments, node, where, remedy = BREAK[what]
    lab = breakable()
    run(lab, node, need_program("ip"), *arguments)
    status, document, told = up(lab.name, "--planes", "1", "--spines", "2")
    assert (status, document["changed"]) == (1, False)
    assert {each["where"] for each in document["differences"]} == {where}
    verb = {Remedy.REBUILD: "down", Remedy.HEAL: "heal", Remedy.IMPAIR: "impair"}[remedy]
    (command,) = document["remedies"]
    assert command.startswith(f"mrc lab {verb} --name {lab.name}")
    assert command in told
    if remedy is not Remedy.REBUILD:
        assert invoke(*command.split()[2:]).exit_code == 0
        assert up(lab.name, "--planes", "1", "--spines", "2")[0] == 0


@pytest.mark.root
def test_a_namespace_that_is_gone_or_anothers_is_told(breakable: Callable[[], Lab]) -> None:
    lab = breakable()
    assert namespace.withdraw(f"{lab.name}-p0s1", lambda _: True)
    (found,) = lab.differences()
    assert (found.where, found.remedy) == ("p0s1", Remedy.REBUILD)
    assert _listed(lab.name) == ("broken", ["p0s1"])
    assert f"{lab.name}  broken: 1 of its namespaces are gone" in invoke("list").stdout
    stranger = in_thread(namespace.unshare_network)
    with namespace.netns_directory():
        namespace.publish(f"{lab.name}-p0s1", stranger)
    os.close(stranger)
    (found,) = lab.differences()
    assert "another has its name" in found.what
    assert _listed(lab.name) == ("broken", ["p0s1"])
    assert lab.down().kept == (f"{lab.name}-p0s1",)
    assert namespace.withdraw(f"{lab.name}-p0s1", lambda _: True)
    Lab.up(lab.name, lab.topology)
    assert _listed(lab.name) == ("up", [])


def _listed(name: str) -> tuple[str, list[str]]:
    """What `mrc lab list` says of a lab: its state, and whose namespaces are missing."""
    (said,) = (each for each in json.loads(invoke("list", "--json").stdout) if each["name"] == name)
    return said["state"], said["missing"]


@pytest.mark.root
def test_an_impairment_that_is_not_as_described_is_told(name: str, topology: Callable[[str], str]) -> None:
    path = topology("planes: 1\nspines: 2\nlinks: {p0l0-p0s1: {toward: {p0s1: {loss: 20%}}}}\n")
    assert up(name, path)[0] == 0
    assert invoke("impair", "--name", name, "p0l0-p0s0", "--toward", "p0l0", "--loss", "3%").exit_code == 0
    assert invoke("impair", "--name", name, "p0l0-p0s1", "--clear").exit_code == 0
    status, document, _ = up(name, path)
    assert status == 1
    assert document["differences"] == [
        {"where": "p0l0-p0s0", "what": "has loss 3%, not 0%, toward p0l0"},
        {"where": "p0l0-p0s1", "what": "has loss 0%, not 20%, toward p0s1"},
    ]
    assert document["remedies"] == [
        f"mrc lab impair --name {name} p0l0-p0s0 --toward p0l0 --loss off",
        f"mrc lab impair --name {name} p0l0-p0s1 --toward p0s1 --loss 20%",
    ]
    for command in document["remedies"]:
        assert invoke(*command.split()[2:]).exit_code == 0, command
    assert up(name, path)[0] == 0
    with Lab.open(name) as lab:
        assert lab.impairment("p0l0-p0s1", "p0s1") == Impairment(loss=0.2)


@pytest.mark.root
def test_a_rate_survives_cut_and_heal(name: str, topology: Callable[[str], str]) -> None:
    path = topology("planes: 1\nspines: 2\nfabric_links: {rate: 50mbit, queue: 200KB}\n")
    assert up(name, path)[0] == 0
    with Lab.open(name) as lab:
        lab.cut("p0s1")
        lab.heal("p0s1")
        assert lab.differences() == ()
        assert lab.impairment("p0l1-p0s1", "p0l1") == Impairment(rate_bps=50_000_000, queue_bytes=200_000)


@pytest.mark.root
def test_what_cannot_be_impaired_leaves_no_lab(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mrc.lab import impairment

    def refused(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(impairment, "change", refused)
    described = Description(Clos(planes=1, spines=1), {("p0l0-p0s0", "p0s0"): Impairment(loss=0.1)})
    with pytest.raises(KeyboardInterrupt):
        Lab.up(name, described)
    assert name not in lab_names()
    assert identities(name) == {}


# ------------------------------------------------------------------ down


def cables(netlink_of: dict[str, Any]) -> int:
    """How many cables the namespaces still have, as a socket kept inside of each sees it."""
    from mrc.lab import installed

    names = [
        found.name for node, netlink in netlink_of.items() for found in installed.interfaces(netlink, node).values()
    ]
    return len([name for name in names if name not in ("lo", "usid0", "oob")])


@pytest.fixture
def watched(name: str) -> Iterator[tuple[Lab, dict[str, Any]]]:
    """A lab, and sockets into its leaves that outlive it: every cable ends at a leaf."""
    from mrc.lab.netlink import NetlinkSocket

    lab = Lab.up(name, Clos(planes=2, spines=2))
    sockets: dict[str, NetlinkSocket] = {}
    for leaf in lab.topology.leaf_switches:
        descriptor = lab.open_namespace(leaf)
        sockets[leaf] = NetlinkSocket.inside(descriptor)
        os.close(descriptor)
    yield lab, sockets
    for each in sockets.values():
        each.close()


@pytest.mark.root
def test_down_waits_until_the_cables_are_gone(watched: tuple[Lab, dict[str, Any]]) -> None:
    lab, sockets = watched
    # Those of the hosts' IPv4 network too.
    assert cables(sockets) == len(lab.topology.links) + lab.topology.host_count
    removal = lab.down(wait_s=PATIENCE_S)
    assert removal.cables_gone_s is not None
    assert removal.cables_left == ()
    assert cables(sockets) == 0


@pytest.mark.root
def test_down_names_the_cables_that_something_holds(name: str) -> None:
    for wait_s in (2.0, 10.0, 50.0, 250.0):
        lab = Lab.up(name, Clos(planes=2, spines=2))
        held = lab.open_namespace("p1s1")
        try:
            removal = lab.down(wait_s=wait_s)
        finally:
            os.close(held)
        assert removal.cables_gone_s is None
        assert set(removal.cables_left) >= {"p1l0-p1s1", "p1l1-p1s1"}
        # The kernel may take longer over the others when there is more to do.
        if len(removal.cables_left) == 2:
            break
    assert set(removal.cables_left) == {"p1l0-p1s1", "p1l1-p1s1"}


@pytest.mark.root
def test_down_does_not_wait_for_a_program_that_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.cli.lab.building.CABLES_GONE_S", PATIENCE_S)  # what the kernel may take for the others
    lab = Lab.up(name, Clos(planes=2, spines=2))
    sleeper = lab.popen("h0", ["sleep", "600"])
    result = invoke("down", "--name", name, "--json")
    sleeper.kill()
    sleeper.wait()
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [(each["pid"], each["node"]) for each in document["still_running"]] == [(sleeper.pid, "h0")]
    assert document["cables_gone_s"] is not None
    assert document["cables_left"] == []
