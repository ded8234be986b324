# SPDX-License-Identifier: BSD-2-Clause
"""`mrc` as a shell starts it in tests (`programs.in_shells`): a fork, whose signals and exit status it passes on.

It runs without site packages (python -IS), in a thirtieth of the time that an interpreter takes for a command.
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(os.environ["MRC_FORK_SERVER"])
    mask = os.umask(0)
    os.umask(mask)
    request = {
        "argv": [sys.executable, "-m", "mrc", *sys.argv[1:]],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "session": False,
        "limits": [],
        "processors": sorted(os.sched_getaffinity(0)),
        "blocked": [],
        "umask": mask,
    }
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    socket.send_fds(server, [json.dumps(request).encode()], [network, 0, 1, 2])
    program = int(server.recv(4096))
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: os.kill(program, number))
    # Nothing is said where the lab that it runs in is taken down with all that runs there.
    status = int(server.recv(4096) or 1)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
