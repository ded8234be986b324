# SPDX-License-Identifier: BSD-2-Clause
"""The interpreter from which `programs` forks commands of this package: it has imported what they run on."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from mrc.child import become
from mrc.lab.namespace import enter

# What each command imports when it runs, and what these modules import; functions that import are called.
_ENDPOINT = "mrc.control mrc.fabric.shapes.clos mrc.net.control.connection mrc.net.hosts mrc.net.node"
_EXCHANGE = (
    "concurrent.futures cryptography.hazmat.backends.openssl.backend cryptography.hazmat.primitives.asymmetric.ec "
    "cryptography.hazmat.primitives.serialization cryptography.x509.oid"
)
_ANALYSIS = " ".join(
    f"mrc.capture.analysis.{module}"
    for module in ("comparison", "document", "findings", "report", "reported", "trace_findings", "traffic")
)
_LAB = "mrc.fabric.shapes.clos mrc.lab.build mrc.lab.children mrc.lab.events mrc.lab.impairment mrc.net.forks"
MODULES = {
    "analyze": f"mrc.cli.analyze {_ANALYSIS} numpy.ma rich.table",
    "bench": f"mrc.cli.bench {_ENDPOINT} {_EXCHANGE} "
    f"mrc.bench.client mrc.bench.intervals mrc.bench.lab_run mrc.bench.paths mrc.bench.server {_LAB}",
    "conformance": f"mrc.cli.conformance {_ENDPOINT} {_EXCHANGE} mrc.cli.conformance_progress "
    "mrc.cli.conformance_report mrc.conformance.catalogue:catalogue mrc.conformance.live.hand_server "
    "mrc.conformance.live.server "
    "mrc.conformance.live.target mrc.conformance.suite",
    "craft": "mrc.cli.craft mrc.cli.craft_packets mrc.fabric.template_file mrc.layers",
    "ctl": "mrc.cli.ctl mrc.net.control.host_client mrc.report.pages mrc.top.metrics rich.table",
    "demo": f"mrc.cli.demo mrc.cli.demo_run mrc.cli.isolation {_ENDPOINT} {_EXCHANGE} {_LAB} rich.table",
    "dissect": "mrc.cli.dissect mrc.capture.columns.documents mrc.capture.filter mrc.capture.summary "
    "mrc.capture.verbose",
    "doctor": "mrc.cli.doctor",
    "drill": f"mrc.cli.drill mrc.drill.catalogue mrc.drill.run {_ENDPOINT} {_LAB}",
    "lab": "mrc.cli.lab mrc.lab.children rich.table",
    "map": "mrc.cli.map mrc.lab.children mrc.map.agent mrc.map.deny mrc.map.history mrc.map.service rich.table",
    "recv": f"mrc.cli.recv {_ENDPOINT} {_EXCHANGE} mrc.cli.transfer_output mrc.net.departure mrc.net.transfer.receiver",
    "send": f"mrc.cli.send {_ENDPOINT} mrc.cli.transfer_output mrc.net.transfer.sender mrc.net.transfer.tree",
    "sim": "mrc.cli.sim mrc.sim.cluster mrc.sim.experiment mrc.sim.results.estimate mrc.sim.results.memory",
    "top": "mrc.cli.top mrc.top.live mrc.top.screen rich.live",
    "wireshark": "mrc.cli.wireshark mrc.capture.wireshark",
}
_REQUEST_BYTES = 1 << 20
_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_libc = ctypes.PyDLL(None, use_errno=True)  # which keeps the interpreter's lock, as os.fork does


@contextmanager
def _without_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def serve(requests: socket.socket) -> None:
    """Fork a command for each request, until the other end is closed; the answer to each is its process id."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
        if not request:
            return
        asked = json.loads(request)
        for command in asked["argv"][3:4]:
            _import_for(command)
        process = _sibling()
        if not process:
            _start(asked, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(str(process).encode())


def _sibling() -> int:
    """As os.fork, but the fork is a child of this process's own parent, which asks for it: clone(2).

    A fork between the two, whose end would leave it to that parent, costs as much as the command itself.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    process = int(_libc.syscall(_SYS_CLONE[os.uname().machine], _CLONE_PARENT, 0, 0, 0, 0))
    if process:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    if process < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return process


def _import_for(command: str) -> None:
    """Import what a command runs on, the first time it is asked for."""
    with _without_collection():
        for name in MODULES.pop(command, "").split():
            module, _, function = name.partition(":")
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


def _start(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Become the command, and end with it."""
    try:
        network, *streams = descriptors
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        enter(network)
        os.sched_setaffinity(0, request["processors"])
        signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
        os.umask(request["umask"])
        for number, most in request["limits"]:
            resource.setrlimit(number, (most, resource.getrlimit(number)[1]))
        os.chdir(request["folder"])
        if request["session"]:
            os.setsid()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    become(request["argv"], request["environment"])


if __name__ == "__main__":
    for module in ("mrc.cli", "runpy"):
        importlib.import_module(module)
    serve(socket.socket(fileno=0))
