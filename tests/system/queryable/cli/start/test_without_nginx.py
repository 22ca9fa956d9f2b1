"""`queryable serve` without nginx, on a system that is not Linux."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from local import http
from local.kafka.broker import Broker
from local.ports import free_ports
from local.process_handles import start_time
from local.waiting import wait_until
from tests.support import other_system
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.system.queryable.terminal import Terminal

KEYS = [f"key-{n}" for n in range(40)]


def test_each_backend_answers_everything_and_starts_again(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(4)
    records = [(key.encode(), b'{"n":%d}' % n) for n, key in enumerate(KEYS)]
    Writer(broker.bootstrap_servers).send(topic, records)
    (tmp_path / "views.toml").write_text(
        f'[views.orders]\ntopic = "{topic}"\nkey = "string"\nvalue = "json"\npath = "/orders"\n'
    )
    port, other = free_ports(2)
    env = other_system.environment(tmp_path / "programs")
    begin = [sys.executable, "-c", "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2],"
             " sys.argv[2:])", str(tmp_path)]  # fmt: skip
    tool = [*begin, sys.executable, "-m", "queryable"]
    serve = ["serve", "--bootstrap-servers", broker.bootstrap_servers]
    ports = ["--port", str(port), "--backend-port", str(other)]
    first, second = (f"http://127.0.0.1:{number}" for number in (port, other))
    with Terminal([*tool, *serve, *ports], env, columns=200) as terminal:
        terminal.wait_for(lambda text: "Ctrl-C stops everything" in text, 90)
        assert "nginx has no Lua module, or a Lua library is missing, so it is not" in terminal.text
        assert f"use {first}. These backends answer the same: {second}" in terminal.text
        served_by = set()
        for url in (first, second):
            for n, key in enumerate(KEYS):
                answer = http.get(f"{url}/orders/{key}", timeout=5.0)
                assert (answer.status, json.loads(answer.body)["value"]) == (200, {"n": n})
                served_by.add((url, answer.headers["served-by"]))
            assert http.get(f"{url}/orders/none", timeout=5.0).status == 404
            count = http.get(f"{url}/views/orders/count", timeout=5.0)
            assert json.loads(count.body)["count"] == len(KEYS)
            assert http.get(f"{url}/admin", timeout=5.0).status == 200
        # each backend has asked the other one for its keys
        assert len(served_by) >= 4, served_by
        folder = tmp_path / ".queryable"
        pids = [json.loads(path.read_text())["pid"] for path in folder.glob("*.pid")]
        assert len(pids) == 2
        killed = json.loads((folder / "backend-1.pid").read_text())["pid"]
        os.kill(killed, signal.SIGKILL)
        terminal.wait_for(lambda text: "backend-1 was started again" in text, 60)
        asked = f"{first}/orders/{KEYS[0]}"
        wait_until(lambda: http.get(asked, timeout=2.0).status == 200, 60, "an answer")
        with Terminal([*tool, "get", "orders", KEYS[3], "--url", first], env) as get:
            assert get.wait() == 0, get.text
            assert "│ key-3 │  3 │" in get.text
        terminal.interrupt()
        assert terminal.wait() == 0, terminal.text
    assert "Traceback" not in terminal.text
    assert not list(folder.glob("*.pid"))
    assert [pid for pid in pids if start_time(pid) is not None] == []
