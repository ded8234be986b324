# SPDX-License-Identifier: BSD-2-Clause
"""What a server counts, by name."""

from __future__ import annotations

import threading

COUNTERS = (
    "connections",  # accepted
    "refused_full",  # closed at once: max_connections were open
    "displaced_strangers",  # closed before they had shown the secret, to make room: max_connections were open
    "abandoned_handshakes",  # closed before TLS was ready
    "bad_handshakes",  # no TLS, or not this one
    "bad_secrets",
    "version_mismatches",
    "timeouts",  # handshakes and messages that stopped half-way
    "bad_messages",  # not JSON, too long, too deep, out of place
    "sessions",
    "refused_sessions",  # over, superseded by a newer connection, or too many
    "superseded_connections",  # closed because their client came back over another path
    "requests",  # executed
    "replayed_requests",  # came again and were answered without being executed again
    "stale_requests",  # came after a later one
    "handler_errors",  # answered with an error of the handler's
    "handler_failures",  # the handler broke
)


class Counters:
    """COUNTERS from 0, counted up by any thread."""

    __slots__ = ("_lock", "_values")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(COUNTERS, 0)

    def count(self, name: str, by: int = 1) -> None:
        """Raises KeyError for a name that is not in COUNTERS."""
        with self._lock:
            self._values[name] += by

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return dict(self._values)
