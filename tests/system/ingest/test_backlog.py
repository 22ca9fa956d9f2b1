"""Connections wait for a busy instance; they are not refused."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic

CONNECTIONS = 400
PATIENCE = 0.9  # s; a connection that does not fit in the backlog is retried after 1 s


def test_hundreds_of_connections_can_be_opened_while_no_worker_accepts(
    deploy: Deploy, make_topic: MakeTopic
) -> None:
    [backend] = deploy(views_toml(v={"topic": make_topic(1, name="backlog")})).start(1)
    with backend.paused(), ExitStack() as opened:
        for _ in range(CONNECTIONS):
            opened.enter_context(socket.create_connection(("127.0.0.1", backend.port), PATIENCE))
    assert backend.get("/health/live").status == 200
