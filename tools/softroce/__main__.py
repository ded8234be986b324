# SPDX-License-Identifier: BSD-2-Clause
"""Our RC endpoint against Linux Soft-RoCE in an emulated machine.

The peer is made of Debian's own packages (kernel, rdma-core, busybox), downloaded into a cache folder together with
qemu where that is not installed; nothing of it is installed here. It boots once, about ten seconds, on a tap in
namespaces of this run's own, and takes orders from here. Random bytes go both ways over IPv4 and IPv6, in messages of
many sizes, without loss and with; sums are compared at both ends. Then what must be refused, and what must wait.

Exit status 0: everything was as it must be. 1: something was not, or the run could not be made.

    tools/interop-softroce
    tools/interop-softroce --loss 5% --json
    tools/interop-softroce --prepare        downloads and builds only
    tools/interop-softroce --conformance    Soft-RoCE held to the conformance cases of plain RC
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from held import OTHERWISE, SoftRoce
from image import Image, built
from machine import Emulator, booted, emulator
from network import Network
from packages import Packages
from pair import running
from peer import Peer
from refusals import Check, checks
from transfers import Row, rows

from mrc.conformance.catalogue import chosen
from mrc.conformance.results import Result, Run
from mrc.conformance.runner import run as run_cases
from mrc.conformance.verdicts import ERROR, FAILED, UNSUPPORTED
from mrc.errors import MrcError
from mrc.rc.conformance.catalogue import RC_CONTROL, RC_TWIN, rc_catalogue
from mrc.rc.node import RcNode

_CACHE = Path(__file__).resolve().parents[2] / "build" / "softroce"
_LARGEST_PATH_MTU = 4096
_COLUMNS = "IP  path MTU  loss  direction       messages       bytes  lost  NAKs  seconds  sums"


def share(text: str) -> float:
    """A share of packets: 1% or 0.01."""
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 < value <= 0.2:
        raise ValueError
    return value


def line(row: Row) -> str:
    verdict = "same" if not row.wrong else f"WRONG: {'; '.join(row.wrong)}"
    return (
        f"v{row.version}  {row.path_mtu:>8}  {row.loss:>4.0%}  {row.direction:<14}  {row.messages:>8}  {row.bytes:>10}"
        f"  {row.lost:>4}  {row.naks:>4}  {row.seconds:>7.1f}  {verdict}"
    )


def checked(check: Check) -> str:
    verdict = "as it must be" if check.passed else f"WRONG, not {check.expected}"
    return f"v{check.version}  {check.what:<32}  {check.actual}: {verdict}"


def run(qemu: Emulator, image: Image, loss: float, console: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Boot, try everything, say it as it comes. What there is to report."""
    began = time.monotonic()
    found: list[Row] = []
    asked: list[Check] = []
    with Network() as network, booted(qemu, image, network, console, say) as machine:
        say(f"Soft-RoCE of Linux {image.release}, up after {machine.boot_s:.1f} s\n\n{_COLUMNS}")
        peer = Peer(machine.orders)
        with RcNode(network.own, _LARGEST_PATH_MTU) as node, running(node):
            for row in rows(network, node, peer, loss):
                found.append(row)
                say(line(row))
            say("")
            for check in checks(node, peer):
                asked.append(check)
                say(checked(check))
        peer.quit()
    return {
        "kernel": image.release,
        "boot_s": round(machine.boot_s, 1),
        "seconds": round(time.monotonic() - began, 1),
        "passed": not any(row.wrong for row in found) and all(check.passed for check in asked),
        "transfers": [{**asdict(row), "seconds": round(row.seconds, 2)} for row in found],
        "checks": [{**asdict(check), "passed": check.passed} for check in asked],
    }


def hold(qemu: Emulator, image: Image, patterns: Sequence[str], console: Path, say: Callable[[str], None]) -> Run:
    """Boot, and meet the peer with the conformance cases of plain RC, or those that the patterns choose."""
    with Network() as network, booted(qemu, image, network, console, say) as machine:
        peer = Peer(machine.orders)
        target = SoftRoce(image.release, network, peer)
        say(f"{target.name}, up after {machine.boot_s:.1f} s")
        cases = chosen(rc_catalogue(), patterns)
        found = run_cases(
            cases,
            target,
            control=RC_CONTROL,
            twin=RC_TWIN,
            on_result=lambda each: say(f"{each.verdict:<12} {each.case.id}"),
        )
        peer.quit()
    return found


def as_json(found: Run) -> dict[str, Any]:
    """What the run has to say beside verdicts: whatever was not passed, and the checks that nothing could tell."""
    return {
        "target": found.target,
        "void": found.void or None,
        "passed": found.passed,
        "unexpected": [each.case.id for each in found.results if _unexpected(each)],
        "unsupported": {each.case.id: each.actual for each in found.results if each.verdict == UNSUPPORTED},
        "errors": {each.case.id: each.traceback or each.actual for each in found.results if each.verdict == ERROR},
        "failed": {
            each.case.id: {"expected": each.expected, "actual": each.actual, "story": each.log.story(40)}
            for each in found.results
            if each.verdict == FAILED
        },
        "not_checked": {each.case.id: each.unchecked for each in found.results if each.unchecked},
        "seconds": round(found.took_s, 1),
    }


def _unexpected(result: Result) -> bool:
    return result.verdict in (FAILED, ERROR) and result.case.id not in OTHERWISE


def inside(prepared_outside: str, options: argparse.Namespace) -> int:
    """What runs in namespaces of its own; `prepared_outside` is what was prepared outside, where the network is."""
    prepared = json.loads(prepared_outside)
    qemu = Emulator(**prepared["qemu"])
    image = Image(Path(prepared["kernel"]), Path(prepared["initramfs"]), prepared["release"])
    out = sys.stderr if options.json or options.conformance else sys.stdout
    if options.conformance:
        found = hold(
            qemu, image, options.id, options.cache / "console.log", lambda text: print(text, file=out, flush=True)
        )
        print(json.dumps(as_json(found), indent=2))
        return 1 if found.void or any(map(_unexpected, found.results)) else 0
    report = run(
        qemu, image, options.loss, options.cache / "console.log", lambda text: print(text, file=out, flush=True)
    )
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        wrong = sum(bool(row["wrong"]) for row in report["transfers"])
        wrong += sum(not check["passed"] for check in report["checks"])
        count = len(report["transfers"]) + len(report["checks"])
        print(f"\n{count - wrong} of {count} as they must be, in {report['seconds']} s")
    return 0 if report["passed"] else 1


def outside(arguments: list[str], options: argparse.Namespace) -> list[str]:
    """Download and build. The command that starts this again, in namespaces that take everything in them along when
    they end."""
    began = time.monotonic()
    options.cache.mkdir(parents=True, exist_ok=True)
    packages = Packages(options.cache)
    qemu, image = emulator(packages), built(packages, options.cache / "image")
    print(f"the peer's packages and image are there after {time.monotonic() - began:.1f} s", file=sys.stderr)
    told = {"qemu": asdict(qemu), "kernel": str(image.kernel), "initramfs": str(image.initramfs)}
    again = [sys.executable, str(Path(__file__).parent), *arguments]
    again += ["--inside", json.dumps({**told, "release": image.release})]
    # With processes of its own besides: whatever ends this one, the machine ends too.
    root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *root, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *again]


def main(arguments: list[str]) -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="tools/interop-softroce",
        description=__doc__.partition("\n")[0],
        epilog=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--loss", type=share, default=0.01, help="of packets, each way, in the lossy half (default: 1%%)"
    )
    parser.add_argument("--cache", type=Path, default=_CACHE, help="packages, image and console (default: %(default)s)")
    parser.add_argument("--prepare", action="store_true", help="download and build, and end")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument(
        "--conformance",
        action="store_true",
        help="instead, hold Soft-RoCE to the cases of `mrc conformance --transport rc`; one JSON document on stdout",
    )
    parser.add_argument("--id", action="append", default=[], metavar="PATTERN", help="with --conformance: only these")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.cache = options.cache.resolve()
    try:
        if options.inside:
            return inside(options.inside, options)
        command = outside(arguments, options)
    except MrcError as error:
        print(f"interop-softroce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if not options.prepare:
        sys.stderr.flush()
        os.execvp(command[0], command)
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
