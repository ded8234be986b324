# SPDX-License-Identifier: BSD-2-Clause
"""Every time and limit of the out-of-band exchange."""

from __future__ import annotations

from dataclasses import fields

from mrc.errors import CallerError
from mrc.records import record

MAX_MESSAGE_BYTES = 1 << 20
MAX_HELLO_BYTES = 4096  # all that is read from somebody who has not shown the secret yet


@record(frozen=True, slots=True)
class ExchangeConfig:
    """The times (seconds) and counts of the exchange, for both ends. All are this project's choice.

    Raises CallerError for a value that is not positive, and where two values contradict each other.
    """

    # Server: from accept to a proven secret, TLS included.
    handshake_timeout_s: float = 5.0
    # Both: from the first byte of a message to its last.
    message_timeout_s: float = 5.0
    # Server: how often a request that is still being executed says so.
    working_interval_s: float = 0.5
    # Server: how long a session without any connection is kept.
    linger_s: float = 10.0
    # Server: the same where the client's end of the last connection was closed without a word, as when a process ends.
    ended_linger_s: float = 0.5
    # Server: while a request is executed, how often its connection is looked at, whether the client's process is over.
    ended_look_s: float = 0.1
    # Client: how often an idle connection is looked at, whether the other end has closed it.
    look_interval_s: float = 0.25
    # Server: how long the refusal of a wrong secret is held back, its connection slot taken meanwhile.
    bad_secret_pause_s: float = 0.25
    # Server: how long close() lets requests that are being executed finish.
    close_grace_s: float = 1.0
    max_connections: int = 64
    max_sessions: int = 256
    # Server: answers kept per session for requests that are sent again. The client has one request under way.
    kept_answers: int = 4
    # Client: silence after which a connection is given up for the next address; doubles while everything is silent.
    attempt_timeout_s: float = 1.0
    max_attempt_timeout_s: float = 5.0
    # Client: between the first try of one address and of the next.
    stagger_s: float = 0.25
    # Client: between two rounds through all the addresses.
    round_pause_s: float = 0.25
    # Client: an idle connection is tried this often, so that the session outlives the plane it was made over.
    ping_interval_s: float = 2.0
    # Both: TCP keepalive begins after this idle time, then one probe a second; unacknowledged data or probes give the
    # connection up after tcp_user_timeout_s.
    keepalive_idle_s: int = 5
    tcp_user_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise CallerError(f"{each.name} must be above 0, got {value}")
        if self.working_interval_s >= self.attempt_timeout_s:
            raise CallerError(
                f"working_interval_s ({self.working_interval_s}) must be below attempt_timeout_s "
                f"({self.attempt_timeout_s}), or a long request looks like a dead path"
            )
        if self.ping_interval_s >= self.linger_s:
            raise CallerError(
                f"ping_interval_s ({self.ping_interval_s}) must be below linger_s ({self.linger_s}), or an idle "
                "session is closed before its client notices a dead path"
            )


DEFAULT_EXCHANGE_CONFIG = ExchangeConfig()
