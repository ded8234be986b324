# SPDX-License-Identifier: BSD-2-Clause
"""Pages over HTTP that only show: each has a path and is made anew for each reader. Nothing is changed by asking.

Strangers may reach the address. What they cost is bounded: so many readers, so long for each, and one that has been at
it longest gives way. A web page of somebody else's cannot read these through its visitor's browser under a name of its
own (DNS rebinding): who asks has to name the server by address, as localhost or by the host's own name.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mrc.errors import SystemRefused
from mrc.threads import start_thread

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_TIMEOUT_S = 10
_MOST_READERS = 64
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]@/]+))(?::[0-9]{1,5})?", re.ASCII)

# A page as its bytes and their type.
Page = tuple[bytes, str]


class PageServer:
    """Serves `pages`, each under its path, in threads, until `close`. A page that raises SystemRefused is a 501."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]], policy: str = "") -> None:
        """`port` 0: any free one; `port` then says which. `policy` is the pages' Content-Security-Policy.

        Raises SystemRefused for an address that cannot be had.
        """

        class Handler(_Handler):
            pass

        Handler.pages, Handler.policy = pages, policy or "default-src 'none'"
        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            raise SystemRefused(
                error.errno, f"cannot listen on {host} port {port}: {error.strerror}; choose another with --listen"
            ) from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = start_thread(self._server.serve_forever, 0.2, name="mrc pages")

    def close(self) -> None:
        """Take nobody any more. Readers that are being served are left."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A thread for each reader. Where there are too many, the one that has been at it longest gives way."""

    daemon_threads = True
    block_on_close = False
    # Who knocks while others are let in waits here; beyond it the kernel has them try again after a second.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._readers: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._readers) >= _MOST_READERS:
                oldest = next(iter(self._readers))
                del self._readers[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._readers[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No further thread: this reader comes again.
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._readers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    pages: Mapping[str, Callable[[], Page]]
    policy: str
    timeout = _TIMEOUT_S
    server_version, sys_version = "mrc", ""

    def do_GET(self) -> None:
        if not all(map(may_be_named, self.headers.get_all("Host", []))):
            self.send_error(
                HTTPStatus.MISDIRECTED_REQUEST, explain="Name this host by its address, its own name or localhost."
            )
            return
        make = self.pages.get(self.path.partition("?")[0])
        if make is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            page = make()
        except SystemRefused as refused:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED, explain=str(refused))
            return
        self._answer(*page)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", self.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not a line for each request."""


def may_be_named(host: str) -> bool:
    """Whether a Host header names this host: a name that somebody else gave it is none of its names."""
    match = _HOST.fullmatch(host.strip())
    if match is None:
        return False
    name = (match[1] or match[2]).lower().rstrip(".")
    own = socket.gethostname().lower()
    if name in ("localhost", own, own.partition(".")[0]):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
