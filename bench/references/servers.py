"""Starts the servers that are references: constant answers, nginx, Kafka Streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.stack import Server, Stack
from local.kafka.jars import streams_class_path
from local.kafka.java import find_java
from local.stack.nginx import find_nginx, workers_beside_backends
from model.http.answers import Answer

_SERVER_HEADERS = ("date", "server", "connection")
_STREAMS = Path(__file__).with_name("streams")


def constant(stack: Stack, answer: Answer) -> Server:
    """gunicorn with a backend's settings, and an application that always sends this answer."""
    server_name = stack.new_name("constant")
    recorded = stack.folder_of(f"{server_name}.json")
    headers = {name: text for name, text in answer.headers.items() if name not in _SERVER_HEADERS}
    body = answer.body.decode()
    recorded.write_text(json.dumps({"status": answer.status, "headers": headers, "body": body}))
    env = {"BENCH_ANSWER": str(recorded)}
    configuration = "python:bench.references.asgi_conf"
    server = stack.launch_gunicorn(server_name, configuration, env=env, reference=True)
    return stack.answering(server, "/")


def static(stack: Stack, answer: Answer) -> Server:
    """nginx that always sends the same answer."""
    return _nginx(stack, static_location(answer))


def static_location(answer: Answer) -> str:
    """nginx's directives that send the same answer."""
    made_by_nginx = (*_SERVER_HEADERS, "content-length", "content-type")
    lines = [
        f"add_header {name} {_quoted(text)};"
        for name, text in answer.headers.items()
        if name not in made_by_nginx
    ]
    kind = answer.headers.get("content-type", "text/plain")
    return " ".join(
        [f"default_type {kind};", *lines, f"return 200 {_quoted(answer.body.decode())};"]
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def front(stack: Stack, servers: Sequence[Server]) -> list[Server]:
    """A plain nginx in front of these servers, which it asks in turn; and the servers."""
    listed = " ".join(f"server 127.0.0.1:{server.port};" for server in servers)
    upstream = f"upstream behind {{ {listed} keepalive 256; keepalive_requests 10000000; }}"
    location = 'proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";'
    return [_nginx(stack, location, upstream), *servers]


def _nginx(stack: Stack, location: str, upstream: str = "") -> Server:
    """nginx with one location, which has the directives `location`; no access log, no Lua. It has
    as many workers as our nginx."""
    name = stack.new_name("nginx")
    prefix = stack.folder_of(name)
    (prefix / "logs").mkdir(parents=True)
    temporary = "".join(
        f"{kind}_temp_path {kind}_temp; "
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )

    def command(port: int) -> list[str]:
        (prefix / "nginx.conf").write_text(
            f"worker_processes {workers_beside_backends()};\n"
            "pid logs/nginx.pid;\nerror_log logs/error.log;\n"
            "events { worker_connections 4096; multi_accept on; }\n"
            f"http {{\n  {temporary}\n  access_log off;\n  keepalive_requests 10000000;\n"
            f"  {upstream}\n"
            f"  server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }}\n}}\n"
        )
        files = ["-e", f"{prefix}/logs/error.log", "-p", f"{prefix}/", "-c", f"{prefix}/nginx.conf"]
        return [find_nginx(), *files, "-g", "daemon off;"]

    return stack.answering(stack.launch(name, command, reference=True), "/")


def streams(stack: Stack, name: str, program: str, application: str, last: str) -> Server:
    """An instance of one of the Kafka Streams applications in Java; does not wait until it is
    ready. `application`: its id. `last`: its last argument."""

    def command(port: int) -> list[str]:
        options = ["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        # By default, an answer on a kept connection waits 40 ms, and only 200 connections are kept.
        options += ["-Dsun.net.httpserver.nodelay=true"]
        options += ["-Dsun.net.httpserver.maxIdleConnections=10000"]
        arguments = [stack.servers, str(stack.folder_of(name)), application, str(port), last]
        source = str(_STREAMS / f"{program}.java")
        return [find_java(), *options, "-cp", streams_class_path(), source, *arguments]

    return stack.launch(name, command, reference=True)
