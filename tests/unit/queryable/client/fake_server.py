"""An HTTP server with one view and a handler of the test: for responses that real instances send
only when something is wrong."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.clients.scripted_transport import ORDERS
from tests.support.security.tls import Authority


class RequestHandler(BaseHTTPRequestHandler):
    """Calls `server.handle_request_with` for every request but the one for the view."""

    protocol_version = "HTTP/1.1"
    server: Server
    body: bytes  # of a POST

    def do_GET(self) -> None:
        if self.path == "/views/orders":
            self.respond(200, ORDERS)
        else:
            self.server.paths.append(self.path)
            self.server.handle_request_with(self)

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def respond(self, status: int, document: Any, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_chunked(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def hang_up(self) -> None:
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: Callable[[RequestHandler], None]) -> None:
        super().__init__(("127.0.0.1", 0), RequestHandler)
        self.handle_request_with = handler
        self.paths: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        pass  # clients disconnect on purpose


def use_tls(server: Server, authority: Authority) -> None:
    """From now on, the server speaks HTTPS, with a certificate of the authority for 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "127.0.0.1"))
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.url = server.url.replace("http:", "https:")


@contextmanager
def serving(handler: Callable[[RequestHandler], None]) -> Iterator[Server]:
    with Server(handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
