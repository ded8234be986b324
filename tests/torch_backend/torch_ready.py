# SPDX-License-Identifier: BSD-2-Clause
"""A process that has imported what jobs of torch import, and forks ranks, as a program: torch_ready.py DESCRIPTOR.

Importing torch takes seconds of a processor, and most jobs take less. A rank is a fork, with the environment, the
arguments, the output and in the network namespace that it was asked with. DESCRIPTOR is a socket: a request comes as
{"argv", "env"} with the descriptor to write to and that of the namespace, and is answered with {"pid"}; {"pid", "code"}
follows when the rank has ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import sys
from typing import Any

from mrc.lab.namespace import enter

# What the first process group loads: each rank would load it for itself.
OF_A_GROUP = [
    "mrc.torch.process_group",
    "mrc.net.control.connection",
    "cryptography.hazmat.backends.openssl.backend",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.x509.oid",
]
OF_JOBS = [
    "pytest",
    "torch._dynamo",
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.run",
]
MOST_BYTES = 1 << 18


def serve(asked: socket.socket) -> dict[str, Any] | None:
    """Fork ranks until nobody can ask any more. Returns a request in the fork that is its rank."""
    selector = selectors.DefaultSelector()
    selector.register(asked, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is asked:
                message, descriptors, _, _ = socket.recv_fds(asked, MOST_BYTES, 2)
                if not message:
                    return None
                pid = os.fork()
                if not pid:
                    selector.close()
                    asked.close()
                    for standard in (1, 2):
                        os.dup2(descriptors[0], standard)
                    enter(descriptors[1])
                    for descriptor in descriptors:
                        os.close(descriptor)
                    request: dict[str, Any] = json.loads(message)
                    return request
                for descriptor in descriptors:
                    os.close(descriptor)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
                asked.send(json.dumps({"pid": pid}).encode())
            else:
                selector.unregister(key.fileobj)
                os.close(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(key.data, 0)[1])
                asked.send(json.dumps({"pid": key.data, "code": code}).encode())


if __name__ == "__main__":
    # The collector would go through all of it meanwhile, and copy every page of it in each rank.
    gc.disable()
    for module in (*OF_JOBS, *OF_A_GROUP):
        importlib.import_module(module)
    gc.freeze()
    gc.enable()
    if request := serve(socket.socket(fileno=int(sys.argv[1]))):
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = request["argv"]
        # A rank that does not leave by os._exit ends as a program does, with what is registered for that.
        runpy.run_path(sys.argv[0], run_name="__main__")
