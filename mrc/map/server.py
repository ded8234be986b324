"""The map over HTTP: the page at /, its document at /map.json, /metrics for Prometheus. Nothing is changed by it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mrc.errors import SystemRefused
from mrc.map.metrics import CONTENT_TYPE, metrics
from mrc.report import html

_TIMEOUT_S = 10
_MOST_READERS = 64


def page() -> bytes:
    """The page, which asks for its document once a second."""
    body, style, script = (html.resource("mrc.map", name) for name in ("body.html", "page.css", "page.js"))
    return html.page("mrc map", body, style=style, script=script, asks=True).encode()


class MapServer:
    """Serves what `latest` returns: (the picture with its past, how many faults were named)."""

    def __init__(self, host: str, port: int, latest: Callable[[], tuple[dict[str, Any], int]]) -> None:
        """`port` 0: any free one; `port` then says which. Raises SystemRefused when it is taken."""

        class Handler(_Handler):
            pass

        Handler.latest = staticmethod(latest)
        Handler.page = page()
        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            raise SystemRefused(
                error.errno, f"cannot listen on {host} port {port}: {error.strerror}; choose another with --listen"
            ) from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A thread for each reader. Where there are too many, the one that has been at it longest gives way."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._readers: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._readers) >= _MOST_READERS:
                oldest = next(iter(self._readers))
                del self._readers[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._readers[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._readers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    latest: Callable[[], tuple[dict[str, Any], int]]
    page: bytes
    timeout = _TIMEOUT_S
    server_version, sys_version = "mrc-map", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(self.page, "text/html; charset=utf-8")
        elif path == "/map.json":
            self._answer(json.dumps(self.latest()[0]).encode(), "application/json")
        elif path == "/metrics":
            self._answer(metrics(*self.latest()), CONTENT_TYPE)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", html.policy(scripts=True, asks=True))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not a line for each request."""
