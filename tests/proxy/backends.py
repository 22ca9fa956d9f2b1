"""Fake backends: real HTTP servers that say who holds what, and record what they are asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from backend.wire.point_batch import ASK_ALONE, Head, Item, decode_paths, encode_answers

EPOCH = "1000-1"
VIEWS = {
    "words": {"path": "/words", "partitions": 9, "partitioner": "murmur2", "key": "string"},
    "crc": {"path": None, "partitions": 9, "partitioner": "crc32", "key": "bytes"},
    "fnv": {"path": "/fnv", "partitions": 9, "partitioner": "fnv1a", "key": "string"},
    "longs": {"path": "/longs", "partitions": 9, "partitioner": "murmur2", "key": "int64"},
    "any": {"path": "/any", "partitions": 9, "partitioner": "none", "key": "string"},
    "absent": {"path": "/absent", "partitions": 0, "partitioner": "murmur2", "key": "string"},
}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Answer:
    """What to say; ``None`` instead of an answer closes the connection without one."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


Behaviour = Callable[[Request], Answer | None]

CATCHING_UP = Answer(
    503, b'{"code":"catching-up"}', {"Retry-After": "1", "Content-Type": "application/problem+json"}
)


def is_hopeless(request: Request) -> Answer:
    """What no other backend can better: 503, or as the proxy wants to be told so."""
    status = int(request.headers.get("Queryable-Final-Status", "503"))
    return Answer(status, b'{"code":"repartitioned"}', CATCHING_UP.headers)


def says(answer: Answer | None) -> Behaviour:
    return lambda request: answer


class Backend:
    """One server on a port of its own. ``holds`` and ``stands_by`` go by view name."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.state = "running"
        self.host = "127.0.0.1"
        self.holds: dict[str, list[int]] = {}
        self.stands_by: dict[str, list[int]] = {}
        self.behave: Behaviour = self.answer
        self.behave_together: Behaviour = self.together
        self.topology: Behaviour = self.processors
        self.requests: list[Request] = []
        self.batches: list[int] = []  # how many reads travelled in each
        self.map_requests: list[Request] = []
        self.map_answers: list[int] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            # all of an answer in one write: the last segment of two would wait for an ACK
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                self.number = backend._opened(self.connection)

            def finish(self) -> None:
                backend._closed(self.connection)
                super().finish()

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                # the path as it came: http.server shortens a leading "//"
                path = self.requestline.split(" ")[1]
                headers = dict(self.headers.items())
                body = self.rfile.read(length)
                backend._serve(self, Request(self.command, path, headers, body, self.number))

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            # connections that are not accepted yet; 5 is too few for a crowd
            request_queue_size = 512

        self._server = Server(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = False
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        """As a kill does: connections closed, new ones refused."""
        if self._server is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the other side may have closed it
                    connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._server = None

    def _opened(self, connection: socket.socket) -> int:
        with self._lock:
            self._open.add(connection)
            self.connections += 1
            return self.connections

    def _closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def _serve(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        is_map = request.path == "/processors" and "Connection" in request.headers
        if is_map:
            self.map_requests.append(request)
            answer = self.topology(request)
        elif request.path == "/internal/reads":
            self.batches.append(len(decode_paths(request.body)))
            answer = self.behave_together(request)
        else:
            self.requests.append(request)
            answer = self.behave(request)
        if answer is None:
            handler.close_connection = True
            return
        if is_map:
            self.map_answers.append(answer.status)
        handler.send_response(answer.status)
        headers = {"Topology-Epoch": self.cluster.epoch, "Content-Length": str(len(answer.body))}
        for name, value in {**headers, **answer.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if request.method != "HEAD":
            handler.wfile.write(answer.body)
        handler.wfile.flush()

    def together(self, asked: Request) -> Answer | None:
        """Reads that travel together: each as it would be answered alone."""
        heads: list[Head] = []
        items: list[Item] = []
        for path in decode_paths(asked.body):
            request = Request("GET", path.decode(), {}, b"", asked.connection)
            self.requests.append(request)
            answer = self.behave(request)
            if answer is None:
                return None
            if answer.status == 503:
                items.append(ASK_ALONE)
                continue
            lines = "".join(f"{name}: {value}\n" for name, value in answer.headers.items())
            heads.append((answer.status, lines.encode()))
            items.append((len(heads) - 1, b"", answer.body))
        return Answer(200, encode_answers(self.cluster.epoch.encode(), heads, items))

    def answer(self, request: Request) -> Answer:
        """What a good backend says: who it is."""
        body = json.dumps({"by": self.name}).encode()
        return Answer(body=body, headers={"Served-By": f"{self.name}; active"})

    def processors(self, request: Request) -> Answer:
        etag = f'"{self.cluster.epoch}/{self.name}"'
        if request.headers.get("If-None-Match") == etag:
            return Answer(304, b"", {"ETag": etag})
        return Answer(200, json.dumps(self.cluster.map()).encode(), {"ETag": etag})

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if path in request.path]


class Cluster:
    """Some backends that agree: partition p is held by backend p modulo their number."""

    def __init__(self, names: Iterable[str]) -> None:
        self.epoch = EPOCH
        self.views = {name: dict(view) for name, view in VIEWS.items()}
        self.backends = [Backend(self, name) for name in names]
        self.spread()

    def spread(self) -> None:
        for index, backend in enumerate(self.backends):
            backend.holds = {
                name: list(range(index, int(str(view["partitions"])), len(self.backends)))
                for name, view in self.views.items()
            }

    def with_standbys(self) -> None:
        """Each backend stands by for the one before it."""
        for index, backend in enumerate(self.backends):
            backend.stands_by = dict(self.backends[index - 1].holds)

    def map(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "views": self.views,
            "processors": [
                {
                    "id": backend.name,
                    "host": backend.host,
                    "port": backend.port,
                    "state": backend.state,
                    "topicPartitions": backend.holds,
                    "standbyPartitions": backend.stands_by,
                }
                for backend in self.backends
            ],
        }

    def holder(self, view: str, partition: int) -> Backend:
        return next(b for b in self.backends if partition in b.holds.get(view, []))

    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{backend.port}" for backend in self.backends)

    def stop(self) -> None:
        for backend in self.backends:
            backend.stop()
