"""Tests of what backend/server relies on in gunicorn, gunicorn_h1c, uvloop and a2wsgi.

All of it is public by name, but little of it is documented. When you change a pinned version, run
this module first. The message of a failed test says what has changed, what breaks, and where it is
used.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.metadata
import inspect
import logging
import os
import re
import signal
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from a2wsgi import WSGIMiddleware
from gunicorn import sock
from gunicorn.arbiter import Arbiter
from gunicorn.asgi.lifespan import LifespanManager
from gunicorn.asgi.parser import CallbackRequest
from gunicorn.config import Config
from gunicorn.workers import base
from gunicorn_h1c import H1CProtocol, LimitRequestHeaders, LimitRequestLine

from backend.instance.application import EXIT_CANNOT_START
from backend.server.connection import Connection
from backend.server.worker import Worker
from tests.support.running_server import App, client, run, running_server, until

ROOT = Path(__file__).parents[4]
PACKAGES = ("a2wsgi", "gunicorn", "gunicorn_h1c", "uvloop")
GET = b"GET /a%2Fb?c=d HTTP/1.1\r\nHost: h\r\nX-Y: z\r\n\r\n"


# -- versions and names --------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_the_pinned_version_is_installed(package: str) -> None:
    pins = re.findall(rf'"{package}==([0-9.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pins == [importlib.metadata.version(package)], (
        f"pyproject.toml must pin {package}, and this version must be installed: backend/server "
        "relies on undocumented behaviour"
    )


def private_names(module: Path) -> set[str]:
    """Private names of other modules that this one uses, by import or as an attribute."""
    tree = ast.parse(module.read_text())
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_no_private_name_of_another_package_is_used() -> None:
    modules = sorted((ROOT / "backend" / "server").glob("*.py"))
    assert len(modules) > 5
    assert {m.name: private_names(m) for m in modules if private_names(m)} == {}, (
        "private names of a dependency change without notice: use a public one"
    )


@pytest.mark.slow
def test_no_module_of_another_package_is_patched() -> None:
    modules = sorted((ROOT / "backend").rglob("*.py"))
    assert len(modules) > 50
    for module in modules:
        tree = ast.parse(module.read_text())
        imported = {
            (alias.asname or alias.name).split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and (
                node.module if isinstance(node, ast.ImportFrom) else node.names[0].name or ""
            ).split(".")[0]  # type: ignore[union-attr]
            in PACKAGES
            for alias in node.names
        }
        patched = [
            ast.unparse(target)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id in imported
        ]
        assert patched == [], f"{module} changes a module of another package"


def test_no_method_overrides_one_of_gunicorn_by_accident() -> None:
    """A new version of the base class may have new methods."""
    own = {name for name in vars(Worker) if not name.startswith("__")}
    intended = {"init_process", "init_signals", "run"}
    assert own & set(dir(base.Worker)) == intended, (
        "a method of backend/server/worker.py overrides one of gunicorn's Worker by accident"
    )


# -- gunicorn: the worker and the arbiter --------------------------------------------------------


def test_the_order_of_a_workers_initialisation() -> None:
    seen: list[str] = []
    application = object()

    class Probe(base.Worker):  # type: ignore[misc]
        def init_signals(self) -> None:
            seen.append("init_signals")

        def run(self) -> None:
            seen.append("run")
            assert self.wsgi is application, "Worker._serve takes the application from `wsgi`"

    class Loader:
        def wsgi(self) -> object:
            seen.append("wsgi")
            return application

    listener = socket.socket()
    log = logging.getLogger("test")
    log.close_on_exec = lambda: None  # type: ignore[attr-defined]
    probe = Probe(1, os.getppid(), [listener], Loader(), 30, Config(), log)
    try:
        probe.init_process()
        assert seen == ["init_signals", "wsgi", "run"], (
            "gunicorn's Worker.init_process has another order: backend/server/worker.py needs its "
            "loop before init_signals, and the application before run"
        )
        assert probe.alive is True, "Worker._wait_for_stop ends when `alive` is false"
        assert probe.ppid == os.getppid(), "Worker._wait_for_stop compares `ppid`"
        assert probe.sockets == [listener], "Worker._serve listens on `sockets`"
        os.utime(probe.tmp.fileno(), (0, 0))
        probe.notify()
        assert probe.tmp.last_update() > 0, "the arbiter kills a worker that does not notify"
        assert {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1} <= set(probe.SIGNALS)
    finally:
        probe.tmp.close()
        for end in probe.PIPE:
            os.close(end)
        listener.close()


def test_a_listener_has_a_socket() -> None:
    cfg = Config()
    cfg.set("bind", "127.0.0.1:0")
    [listener] = sock.create_sockets(cfg, logging.getLogger("test"))
    assert isinstance(listener.sock, socket.socket), "Worker._listen takes it from `.sock`"
    listener.close()


def test_an_address_is_shown_with_https_if_there_is_a_certificate(tmp_path: Path) -> None:
    config = Config()
    assert not config.is_ssl
    config.set("certfile", str(tmp_path / "any.pem"))
    assert config.is_ssl, "gunicorn_conf sets certfile, so that the log has https://"


def test_the_arbiter_ends_when_the_application_cannot_start() -> None:
    assert Arbiter.WORKER_BOOT_ERROR == EXIT_CANNOT_START, (
        "gunicorn restarts a worker unless it exits with this code "
        "(backend/instance/application.py, backend/server/worker.py)"
    )


def test_gunicorn_knows_all_our_settings() -> None:
    """It silently ignores unknown settings."""
    tree = ast.parse((ROOT / "backend" / "gunicorn_conf.py").read_text())
    settings = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and not target.id.startswith("_")
    }
    assert "worker_class" in settings
    assert settings - set(Config().settings) == set(), (
        "backend/gunicorn_conf.py sets something that this gunicorn does not have"
    )
    cfg = Config()
    for name in (
        "keepalive",
        "worker_connections",
        "backlog",
        "graceful_timeout",
        "limit_request_line",
        "limit_request_fields",
        "limit_request_field_size",
    ):
        assert isinstance(getattr(cfg, name), int), f"Worker._serve reads cfg.{name}"
    assert callable(cfg.worker_int)
    assert callable(cfg.worker_abort)


def test_lifespan() -> None:
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            message = (await receive())["type"]
            seen.append(message)
            await send({"type": f"{message}.complete"})

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "on purpose"})

    async def main() -> None:
        log = logging.getLogger("test")
        lifespan = LifespanManager(application, log)
        await lifespan.startup()
        assert seen == ["lifespan.startup"], (
            "startup() must return when the application has started"
        )
        await lifespan.shutdown()
        assert seen == ["lifespan.startup", "lifespan.shutdown"], "shutdown() must stop it"
        with pytest.raises(Exception, match="on purpose"):
            await LifespanManager(failing, log).startup()

    run(main())


# -- gunicorn_h1c: the parser --------------------------------------------------------------------


def parser(seen: list[Any], **limits: int) -> Any:
    def head() -> bool:
        seen.append("head")
        return False

    return H1CProtocol(
        on_headers_complete=head,
        on_body=seen.append,
        on_message_complete=lambda: seen.append("end"),
        **{
            "limit_request_line": 1000,
            "limit_request_fields": 100,
            "limit_request_field_size": 1000,
            "limit_remaining": 0,
            **limits,
        },
    )


def test_the_parser_calls_back_in_order() -> None:
    seen: list[Any] = []
    h1c_parser = parser(seen)
    post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabcd"
    for at in range(0, len(post), 3):
        h1c_parser.feed(post[at : at + 3])
    assert seen[0] == "head", "Connection._headers_complete makes the exchange"
    assert seen[-1] == "end", "Connection._message_complete ends the wait for the body"
    assert b"".join(seen[1:-1]) == b"abcd", "Connection._body gets the body as bytes"


def test_the_parser_keeps_the_bytes_after_a_request() -> None:
    seen: list[Any] = []
    h1c_parser = parser(seen)
    following = b"x" * 200_000
    h1c_parser.feed(GET + following)
    assert seen == ["head", "end"]
    assert h1c_parser.remaining() == following, (
        "limit_remaining=0 must mean no limit: Connection.exchange_ended would lose requests"
    )
    h1c_parser.reset()
    h1c_parser.feed(GET)
    assert seen == ["head", "end", "head", "end"], "a parser serves all requests of a connection"
    assert h1c_parser.remaining() == b""


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n" % (b"k" * 1000), LimitRequestLine),
        (b"GET / HTTP/1.1\r\nX: %b\r\n\r\n" % (b"k" * 1000), LimitRequestHeaders),
        (b"GET / HTTP/1.1\r\n%b\r\n" % (b"X: x\r\n" * 101), LimitRequestHeaders),
        (b"nonsense\r\n\r\n", Exception),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Exception),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Exception),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", Exception),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            Exception,
        ),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Exception),
        (b"GET / HTTP/1.1\r\nX : y\r\n\r\n", Exception),
    ],
)
def test_the_parser_refuses_invalid_requests(data: bytes, error: type[Exception]) -> None:
    h1c_parser = parser([])
    with pytest.raises(error):  # noqa: PT012
        h1c_parser.feed(data)
        if h1c_parser.is_complete:  # checks that the parser leaves to its caller
            CallbackRequest.from_parser(h1c_parser)
        pytest.fail("backend/server/connection.py relies on the parser to refuse this")


def test_the_request_of_a_parser() -> None:
    h1c_parser = parser([])
    h1c_parser.feed(GET)
    request = CallbackRequest.from_parser(h1c_parser)
    assert (request.method, request.version) == ("GET", (1, 1))
    assert (request.raw_path, request.path, request.query) == (b"/a%2Fb", "/a/b", "c=d"), (
        "Connection._start_exchange makes the scope from these; keys with %2F need raw_path"
    )
    assert request.headers_bytes == [(b"host", b"h"), (b"x-y", b"z")]
    assert request.should_close() is False
    assert not request.may_upgrade(), "Connection._start_exchange refuses WebSocket by this"
    for line, closes in (
        (b"GET / HTTP/1.0\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
    ):
        h1c_parser.reset()
        h1c_parser.feed(line)
        assert CallbackRequest.from_parser(h1c_parser).should_close() is closes, line
    h1c_parser.reset()
    h1c_parser.feed(
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    assert CallbackRequest.from_parser(h1c_parser).may_upgrade()


# -- uvloop and a2wsgi ---------------------------------------------------------------------------


def test_a_listener_has_the_requested_backlog() -> None:
    """With a smaller backlog, a burst of connections of a proxy would be refused."""

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=10)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, sock=listener, backlog=300)
        # struct tcp_info of linux/tcp.h: of a listening socket, tcpi_sacked is the backlog
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        assert struct.unpack_from("8B6I", info)[13] == 300, (
            "uvloop's create_server(sock=…, backlog=…) must listen again with this backlog "
            "(Worker._listen)"
        )
        server.close()

    run(main())


def test_a_transport_has_the_methods_that_a_connection_uses() -> None:
    async def main() -> None:
        async with running_server(App()) as (server, port), client(port) as (reader, _):
            await until(lambda: server.connections, "the connection")
            [connection] = server.connections
            assert isinstance(connection, Connection)
            transport = connection._transport
            assert transport.get_write_buffer_size() == 0
            transport.pause_reading()
            transport.resume_reading()
            transport.writelines([b"a", b"b"])
            assert await reader.readexactly(2) == b"ab"
            transport.write(b"c")
            transport.close()
            assert await reader.read() == b"c", "close() must send the bytes written before"
            await until(lambda: not server.connections, "connection_lost")

    run(main())


def test_flask_has_its_own_threads() -> None:
    assert "workers" in inspect.signature(WSGIMiddleware).parameters, (
        "backend/instance/application.py creates separate threads for Flask and KIQR"
    )
