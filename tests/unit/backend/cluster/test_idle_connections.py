"""Clients close idle connections before the server does: no request meets a closing connection."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from backend.cluster.peer_client import PeerClient
from backend.cluster.peer_connection import IDLE_S

ROOT = Path(__file__).parents[4]


def seconds(path: str, pattern: str) -> float:
    [found] = re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE)
    return float(found)


def test_nginx_and_other_instances_close_idle_connections_before_a_backend_does() -> None:
    backend = seconds("backend/gunicorn_conf.py", r"^keepalive = (\d+)")
    upstream = r"upstream backends \{[^}]*\}[^}]*?keepalive_timeout (\d+)s;"
    assert seconds("nginx.conf", upstream) + 10 <= backend

    async def peers() -> list[float]:
        peer_client = PeerClient("b1", 1.0)
        sessions = (peer_client._session, peer_client._streams)
        found = [float(session.connector._keepalive_timeout) for session in sessions]  # type: ignore[union-attr]
        found.append(IDLE_S)
        await peer_client.close()
        return found

    assert max(asyncio.run(peers())) + 10 <= backend
