"""Fake backends: real HTTP servers that serve a topology and record the requests they receive."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

from backend.wire.point_batch import (
    ABSENT,
    ALONE,
    LARGE,
    KeyAnswers,
    Reads,
    all_alone,
    decode_reads,
)
from model.formats.avro.schema import AvroSchema
from model.formats.registry import format_of
from model.records import entry_head
from tests.support.point_batch import encode_answers

EPOCH = "1000-1"
_LONG = AvroSchema('"long"')
# the keys of most views are bytes: the text of a URL is sent as it is, and nginx passes on the
# documents that a backend writes
VIEWS = {
    "words": {"path": "/words", "partitions": 9, "partitioner": "murmur2", "key": "bytes"},
    "crc": {"path": None, "partitions": 9, "partitioner": "crc32", "key": "bytes"},
    "fnv": {"path": "/fnv", "partitions": 9, "partitioner": "fnv1a", "key": "bytes"},
    "longs": {"path": "/longs", "partitions": 9, "partitioner": "murmur2", "key": "int64"},
    "floats": {"path": "/floats", "partitions": 9, "partitioner": "murmur2", "key": "float64"},
    "documents": {"path": "/documents", "partitions": 9, "partitioner": "murmur2", "key": "json"},
    "avro": {
        "path": "/avro",
        "partitions": 9,
        "partitioner": "murmur2",
        "key": "avro",
        "key_schema": _LONG.fingerprint,
    },
    "any": {"path": "/any", "partitions": 9, "partitioner": "none", "key": "string"},
    "absent": {"path": "/absent", "partitions": 0, "partitioner": "murmur2", "key": "string"},
}


_TO_TEXT: dict[str, Callable[[bytes], bytes]] = {
    "string": bytes,
    "bytes": bytes,
    "json": bytes,
    "int64": format_of("int64").codec.to_json,
    "float64": format_of("float64").codec.to_json,
    f"avro:{_LONG.fingerprint}": _LONG.to_json,
}
"""By the format of keys in a batch: from record bytes to the text of a URL."""
_UNESCAPED = "!$&'()*+,;=:@[]{}|^`.-_~"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Answer:
    """A response. A behaviour that returns ``None`` closes the connection without a response."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str | None] = field(default_factory=dict)
    """Those that are None are not sent."""
    pause: float = 0
    """Seconds before each piece of the body."""
    piece: int = 1
    """Bytes of such a piece."""


Behaviour = Callable[[Request], Answer | None]

NOT_IN_A_BATCH = ("Content-Length", "Connection", "Topology-Epoch", "X-Content-Type-Options")
"""Headers of a single answer that an answer in a batch does not have."""

CATCHING_UP = Answer(
    503, b'{"code":"catching-up"}', {"Retry-After": "1", "Content-Type": "application/problem+json"}
)


def non_retryable(request: Request) -> Answer:
    """A 503 that a retry elsewhere cannot change, with the status that the proxy asks for."""
    status = int(request.headers.get("Queryable-Final-Status", "503"))
    return Answer(status, b'{"code":"repartitioned"}', CATCHING_UP.headers)


def always(answer: Answer | None) -> Behaviour:
    return lambda request: answer


class Backend:
    """One server on its own port. ``active`` and ``standby``: partitions by view name."""

    def __init__(
        self, cluster: Cluster, name: str, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        """``port``: 0 for a free one."""
        self.cluster = cluster
        self.tls = tls
        self.name = name
        self.state = "running"
        self.host = "127.0.0.1"
        self.listens_at = "127.0.0.1"
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}
        self.behave: Behaviour = self.answer
        self.behave_batch: Behaviour = self.answer_batch
        self.behave_topology: Behaviour = self.processors
        self.page: Answer | None = Answer(404)
        self.requests: list[Request] = []
        self.batches: list[int] = []  # reads in each
        self.topology_requests: list[Request] = []
        self.topology_answers: list[int] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = port
        self.start()

    def start(self) -> None:
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            # one write per response: the second of two would wait for an ACK
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                self.number = backend._opened(self.connection)

            def finish(self) -> None:
                backend._closed(self.connection)
                super().finish()

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                # the raw path: http.server shortens a leading "//"
                path = self.requestline.split(" ")[1]
                headers = dict(self.headers.items())
                body = self.rfile.read(length)
                backend._serve(self, Request(self.command, path, headers, body, self.number))

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            # pending connections; the default of 5 is too few for many clients at once
            request_queue_size = 512

        self._server = Server((self.listens_at, self.port), Handler)
        self._server.daemon_threads = False
        self.port = self._server.server_address[1]
        if self.tls is not None:
            # the handshake is in the thread of the connection
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        """Acts like a killed process: closes all connections and refuses new ones."""
        if self._server is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()
        self.close_connections()
        self._server.server_close()
        self._server = None

    def close_connections(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the other side may have closed it
                    connection.shutdown(socket.SHUT_RDWR)

    def _opened(self, connection: socket.socket) -> int:
        with self._lock:
            self._open.add(connection)
            self.connections += 1
            return self.connections

    def _closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def _serve(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        is_of_nginx = "X-Forwarded-For" not in request.headers  # not of a client
        is_topology = request.path == "/processors" and is_of_nginx
        if is_topology:
            self.topology_requests.append(request)
            answer = self.behave_topology(request)
        elif request.path == "/admin" and is_of_nginx:
            answer = self.page  # that nginx keeps
        elif request.path == "/internal/reads":
            self.batches.append(sum(len(reads.texts) for reads in decode_reads(request.body)[1]))
            answer = self.behave_batch(request)
        else:
            self.requests.append(request)
            answer = self.behave(request)
        if answer is None:
            handler.close_connection = True
            return
        if is_topology:
            self.topology_answers.append(answer.status)
        handler.send_response(answer.status)
        headers = {"Topology-Epoch": self.cluster.epoch, "Content-Length": str(len(answer.body))}
        for name, value in {**headers, **answer.headers}.items():
            if value is not None:
                handler.send_header(name, value)
        handler.end_headers()
        if answer.pause:
            _write_slowly(handler, answer)
        elif request.method != "HEAD":
            handler.wfile.write(answer.body)
        handler.wfile.flush()

    def answer_batch(self, batch: Request) -> Answer | None:
        """Answers each of the coalesced reads like a single read. The body is the value of a key
        that is text, and the document of any other key."""
        groups: list[KeyAnswers] = []
        epoch = self.cluster.epoch
        digests, of_partitions = decode_reads(batch.body)
        for reads in of_partitions:
            answers: list[Answer] = []
            for request in self._requests(reads, digests, batch.connection):
                self.requests.append(request)
                answer = self.behave(request)
                if answer is None:
                    return None
                epoch = answer.headers.get("Topology-Epoch", epoch)
                answers.append(answer)
            groups.append(_answers_to_keys(answers))
        return Answer(200, encode_answers(epoch.encode(), groups))

    def _requests(
        self, reads: Reads, digests: Sequence[bytes], connection: int
    ) -> Iterator[Request]:
        """The coalesced reads as single requests."""
        assert reads.partition is not None, "nginx sends no paths"
        name, key_format, *_ = reads.partition.decode().split(" ")
        path, to_text = self.cluster.views[name]["path"], _TO_TEXT[key_format]
        for key, token in reads.with_tokens():
            # a batch has only a digest of it
            headers = {"Authorization": f"SHA256 {digests[token - 1].decode()}"} if token else {}
            text = quote(to_text(key[1:]), safe=_UNESCAPED)
            yield Request("GET", f"{path}/{text}", headers, b"", connection)

    def answer(self, request: Request) -> Answer:
        """The answer of a healthy backend: its name."""
        body = json.dumps({"by": self.name}).encode()
        return Answer(body=body, headers={"Served-By": f"{self.name}; active"})

    def processors(self, request: Request) -> Answer:
        etag = f'"{self.cluster.epoch}/{self.name}"'
        if request.headers.get("If-None-Match") == etag:
            return Answer(304, b"", {"ETag": etag})
        return Answer(200, json.dumps(self.cluster.topology()).encode(), {"ETag": etag})

    @property
    def single_requests(self) -> list[Request]:
        """Those that were not in a batch."""
        return [request for request in self.requests if "Host" in request.headers]

    def requests_for(self, path: str) -> list[Request]:
        return [request for request in self.requests if path in request.path]


def _write_slowly(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    handler.close_connection = True
    with contextlib.suppress(OSError):  # the proxy has disconnected
        for place in range(0, len(answer.body), answer.piece):
            handler.wfile.flush()
            time.sleep(answer.pause)
            handler.wfile.write(answer.body[place : place + answer.piece])


def _lines(answer: Answer) -> bytes:
    """Its headers in a batch."""
    kept = [
        (name.lower(), value)
        for name, value in answer.headers.items()
        if name not in NOT_IN_A_BATCH
    ]
    return "".join(f"{name}: {value}\n" for name, value in kept).encode()


_SERVED_BY = {"Served-By", "served-by"}
"""It is among the headers of all answers."""


def _headers(answer: Answer, names: AbstractSet[str]) -> dict[str, str | None]:
    return {name: value for name, value in answer.headers.items() if name in names}


def _answers_to_keys(answers: Sequence[Answer]) -> KeyAnswers:
    """The answers to a group of keys. The found ones have the headers of the first of them, and all
    misses are alike."""
    if all(answer.status not in (200, 404) for answer in answers):
        return all_alone(len(answers))
    first = min(answers, key=lambda answer: (answer.status != 200, answer.status != 404))
    of_all = first if first.status == 200 else Answer(headers=_headers(first, _SERVED_BY))
    fixed, miss = b'x-of-all: 1\n%b\netag: "' % _lines(of_all), b""
    sizes, entries = [], []
    for answer in answers:
        if answer.status == 404:
            sizes.append(ABSENT)
            more = Answer(headers=_headers(answer, answer.headers.keys() - _SERVED_BY))
            miss = b"x-of-misses: 1\n%b\n%b" % (_lines(more), answer.body)
        elif answer.status != 200 or len(answer.body) >= LARGE:
            sizes.append(ALONE)
        else:
            entries.append(entry_head(0, 0) + answer.body)
            sizes.append(len(entries[-1]))
    return fixed, b"", miss, sizes, entries


class Cluster:
    """Backends with one topology: backend p modulo their number owns partition p."""

    def __init__(self, names: Iterable[str], tls: ssl.SSLContext | None = None) -> None:
        self.epoch = EPOCH
        self.views: dict[str, dict[str, Any]] = {
            name: {"store": "key-value", **view} for name, view in VIEWS.items()
        }
        self.more: dict[str, Any] = {}  # other members of /processors
        self.backends = [Backend(self, name, tls) for name in names]
        self.assign()

    def assign(self) -> None:
        for index, backend in enumerate(self.backends):
            backend.active = {
                name: list(range(index, int(str(view["partitions"])), len(self.backends)))
                for name, view in self.views.items()
            }

    def with_standbys(self) -> None:
        """Makes each backend the standby for the partitions of the previous one."""
        for index, backend in enumerate(self.backends):
            backend.standby = dict(self.backends[index - 1].active)

    def topology(self) -> dict[str, Any]:
        return {
            **self.more,
            "epoch": self.epoch,
            "views": self.views,
            "processors": [
                {
                    "id": backend.name,
                    "host": backend.host,
                    "port": backend.port,
                    **({} if backend.tls is None else {"scheme": "https"}),
                    "state": backend.state,
                    "topicPartitions": backend.active,
                    "standbyPartitions": backend.standby,
                }
                for backend in self.backends
            ],
        }

    def owner(self, view: str, partition: int) -> Backend:
        return next(b for b in self.backends if partition in b.active.get(view, []))

    def addresses(self) -> str:
        schemes = ["" if backend.tls is None else "https://" for backend in self.backends]
        return ",".join(
            f"{scheme}127.0.0.1:{backend.port}"
            for scheme, backend in zip(schemes, self.backends, strict=True)
        )

    def stop(self) -> None:
        for backend in self.backends:
            backend.stop()
