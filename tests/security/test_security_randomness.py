# SPDX-License-Identifier: BSD-2-Clause
"""What an attacker off the path has to guess is drawn anew by each process, from the system's random source."""

from __future__ import annotations

import itertools
import subprocess
import sys

from loopback import needs_root

pytestmark = needs_root
SCRIPT = (
    "from mrc.endpoint.config import QpConfig; from mrc.net.device import open_device\n"
    "with open_device(addresses=['127.0.0.1']) as device:\n"
    "    memory, endpoint = device.endpoint.memory, device.endpoint\n"
    "    made = device.call(lambda: [endpoint.create_qp(QpConfig()) for _ in range(64)])\n"
    "    keys = device.call(lambda: [memory.register(bytearray(8)).rkey for _ in range(64)])\n"
    "    print(*keys, *(each.qpn for each in made), *(each.first_psn for each in made))"
)


def drawn() -> list[list[int]]:
    """64 R_Keys, 64 QPNs and 64 first PSNs of a node in a process of its own."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    numbers = list(map(int, done.stdout.split()))
    return [numbers[:64], numbers[64:128], numbers[128:]]


def test_the_next_process_draws_others() -> None:
    """None is foretold by the process before. 64 of 2^24 meet 64 others by chance once in 4,096 times: one may."""
    one, other = drawn(), drawn()
    for before, after in zip(one, other, strict=True):
        assert len(set(before) & set(after)) <= 1
        assert len(set(before)) >= 63


def test_each_of_their_bits_is_drawn() -> None:
    """No bit is always the same, neighbours do not count up."""
    for numbers, bits in zip(drawn(), (32, 24, 24), strict=True):
        for bit in range(bits):
            assert 0 < sum(number >> bit & 1 for number in numbers) < 64
        assert len({after - before for before, after in itertools.pairwise(numbers)}) > 60
