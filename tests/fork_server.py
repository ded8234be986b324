# SPDX-License-Identifier: BSD-2-Clause
"""The interpreter from which `programs` forks commands of this package: it has imported what they run on."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mrc.child import forked
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
    """Fork a command for each request, until the other end is closed; the answer to each is a process id, or an error.

    The commands become children of the one that asks, which is to be a subreaper meanwhile (prctl(2)).
    """
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
        if not request:
            return
        asked = json.loads(request)
        for command in asked["argv"][3:4]:
            _import_for(command)
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            _start(asked, descriptors, writing)
        for descriptor in (*descriptors, writing):
            os.close(descriptor)
        with open(reading) as answer:
            said = answer.read()
        # From here on it has the process that asks as its parent.
        os.waitpid(between, 0)
        requests.send(said.encode() or b"the fork of the fork server ended")


def _import_for(command: str) -> None:
    """Import what a command runs on, the first time it is asked for."""
    with _without_collection():
        for name in MODULES.pop(command, "").split():
            module, _, function = name.partition(":")
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


def _start(request: dict[str, Any], descriptors: list[int], answer: int) -> None:
    """Start the command, in a process that then ends."""
    try:
        network, *streams = descriptors
        enter(network)
        os.sched_setaffinity(0, request["processors"])
        signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
        os.umask(request["umask"])
        for number, most in request["limits"]:
            resource.setrlimit(number, (most, resource.getrlimit(number)[1]))
        program = forked(
            request["argv"],
            env=request["environment"],
            cwd=request["folder"],
            start_new_session=request["session"],
            **dict(zip(("stdin", "stdout", "stderr"), streams, strict=True)),
        )
        os.write(answer, str(program.pid).encode())
    except BaseException as error:
        os.write(answer, repr(error).encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    for module in ("mrc.cli", "runpy"):
        importlib.import_module(module)
    serve(socket.socket(fileno=0))
