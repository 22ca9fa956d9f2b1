"""`queryable serve`: a process that has died starts again, and `check` looks at what runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from local import http
from local.kafka.broker import Broker
from local.ports import free_ports
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.system.queryable.terminal import Terminal


def test_a_killed_backend_and_nginx_start_again(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    Writer(broker.bootstrap_servers).send(topic, [(b"a", b"1")])
    (tmp_path / "views.toml").write_text(
        f'[views.orders]\ntopic = "{topic}"\nkey = "string"\nvalue = "json"\npath = "/orders"\n'
    )
    proxy, backend = free_ports(2)
    env = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    env["PYTHONPATH"] = str(REPOSITORY)
    env["QUERYABLE_TRUSTED_PROXIES"] = "10.0.0.7"
    command = [
        *("env", f"--chdir={tmp_path}", sys.executable, "-m", "queryable", "serve"),
        *("--bootstrap-servers", broker.bootstrap_servers, "--instances", "1"),
        *("--port", str(proxy), "--backend-port", str(backend)),
    ]
    with Terminal(command, env, columns=80) as terminal:
        terminal.wait_for(lambda text: "Ctrl-C stops everything" in text, 90)
        assert "check it: queryable check --production" in terminal.text
        check = [*command[:5], "check", "--production", "--json"]
        done = subprocess.run(check, env=env, capture_output=True, text=True, timeout=60)
        found = {row["about"]: row for row in map(json.loads, done.stdout.splitlines())}
        assert found[f"port {backend}"]["says"] == "instance b1 listens there"
        [data] = (tmp_path / ".queryable" / "state").glob("*/backends/b1")
        assert found[f"data folder {data}"]["status"] == "ok"
        assert found["broker"]["says"].startswith(broker.bootstrap_servers)
        # proxy/start has started nginx
        trusted = tmp_path / ".queryable" / "nginx" / "trusted_proxies.conf"
        assert "set_real_ip_from 10.0.0.7;" in trusted.read_text()
        for name in ("backend-1", "nginx"):
            pid = json.loads((tmp_path / ".queryable" / f"{name}.pid").read_text())["pid"]
            os.kill(pid, signal.SIGKILL)
            terminal.wait_for(lambda text, name=name: f"{name} was started again" in text, 60)  # type: ignore[misc]
            assert f"{name} ended with signal SIGKILL" in terminal.text
            assert f"{name} starts again in 1 s" in terminal.text
        url = f"http://127.0.0.1:{proxy}/orders/a"
        wait_until(lambda: http.get(url, timeout=2.0).status == 200, 60, "an answer")
        terminal.interrupt()
        assert terminal.wait() == 0, terminal.text
