# SPDX-License-Identifier: BSD-2-Clause
"""What an ordinary user does inside `mrc lab shell`; run by test_lab_user.py as that user. Prints one JSON document.

The argument is a directory that the user may write to.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import mrc.cli.lab
import mrc.lab.children  # noqa: F401
from mrc.child import forked

MRC = [sys.executable, "-m", "mrc"]
SIZE = 24 << 20


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """A command of this package, which has been imported here."""
    with forked([*MRC, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        out, err = command.communicate(timeout=300)
    return subprocess.CompletedProcess(argv, command.returncode, out, err)


def said_by(*argv: str) -> str:
    ended = run(*argv)
    assert ended.returncode == 0, ended
    return ended.stdout


def document(*argv: str) -> object:
    return json.loads(said_by(*argv, "--json"))


def transfer(scratch: Path) -> dict[str, object]:
    file, target = scratch / "file", scratch / "in"
    target.mkdir()
    file.write_bytes(os.urandom(SIZE))
    argv = [*MRC, "lab", "exec", "h1", "--", *MRC, "recv", "--once", "--dir", str(target)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        ticket = receiver.stdout.readline().strip()
        sent = json.loads(said_by("lab", "exec", "h0", "--", *MRC, "send", str(file), ticket, "--json"))
        receiver.communicate(timeout=300)
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (file, target / "file")]
    return {"sent": sent, "received": receiver.returncode, "sums": sums}


def main(scratch: Path) -> None:
    said: dict[str, object] = {"uid_map": Path("/proc/self/uid_map").read_text().split()}
    said["up"] = document("lab", "up")
    said["hostname"] = said_by("lab", "exec", "p0s1", "--", "cat", "/proc/net/dev")
    said["impair"] = document("lab", "impair", "p0l0-p0s0", "--loss", "2%")
    said["rate"] = document("lab", "impair", "p1l0-p1s0", "--rate", "2gbit")
    said["transfer"] = transfer(scratch)
    said["cut"] = document("lab", "cut", "p0s1")
    said["status when cut"] = document("lab", "status")
    said["heal"] = document("lab", "heal", "p0s1")
    said["flap"] = document("lab", "flap", "h0-p0l0", "--period", "200ms", "--count", "2")
    said["status"] = document("lab", "status")
    said["events"] = document("lab", "events")
    # What needs eBPF says so, in one line.
    refused = run("lab", "impair", "p0l0-p0s0", "--rate", "1gbit", "--ecn-at", "100KB")
    said["ecn"] = [refused.returncode, refused.stderr]
    said["down"] = document("lab", "down")
    said["list"] = document("lab", "list")
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
