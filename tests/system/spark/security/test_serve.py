"""`queryable serve` with a derived view, for a Kafka whose clients authenticate."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.ports import free_ports
from local.waiting import wait_until
from queryable import Client
from tests.support.deployment import views_toml
from tests.support.secure_kafka.broker import PASSWORDS, SecureBroker
from tests.support.topics import Writer

_STARTED_WITHIN = 120.0  # s


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "TLS"])
def test_a_derived_view_of_a_secure_kafka(
    secure_broker: SecureBroker, tmp_path: Path, mechanism: str
) -> None:
    source, derived = f"orders-{mechanism.lower()}", f"count-{mechanism.lower()}"
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic(source, 2)])
    records = [(b"o%d" % n, b'{"item":"i%d"}' % (n % 3)) for n in range(30)]
    Writer(secure_broker.bootstrap_servers).send(source, records)
    views = tmp_path / "views.toml"
    views.write_text(
        views_toml(
            secure_broker.java_table(mechanism),
            orders={"topic": source},
            counts={"topic": derived, "value": "int64"},
        )
        + f'[views.counts.derive]\nfrom = "{source}"\nfields = {{ item = "string" }}\n'
        'key = "item"\ncount = true\n'
    )
    proxy, backend = free_ports(2)
    log = tmp_path / "output"
    environment = {n: value for n, value in os.environ.items() if n[:10] != "QUERYABLE_"}
    with log.open("wb") as output:
        serve = subprocess.Popen(
            [
                *(sys.executable, "-m", "queryable", "serve", str(views)),
                *("--bootstrap-servers", secure_broker.address(mechanism)),
                *("--port", str(proxy), "--backend-port", str(backend), "--instances", "1"),
                *("--data-dir", str(tmp_path / "data")),
            ],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def text() -> str:
        assert serve.poll() is None, log.read_text()
        return log.read_text()

    try:
        wait_until(lambda: "Ctrl-C stops everything" in text(), _STARTED_WITHIN, "the ready line")
        with Client(f"http://127.0.0.1:{proxy}") as client:
            assert client.get("orders", "o7").value == {"item": "i1"}
            wait_until(
                lambda: {row.key: row.value for row in client.scan("counts")}
                == {"i0": 10, "i1": 10, "i2": 10},
                60, "the counts",
            )  # fmt: skip
        [command] = re.findall(r"^  (curl .*)$", text(), re.M)
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=20, check=True
        )
        assert done.stdout.startswith("HTTP/1.1 200 OK")
    finally:
        serve.send_signal(signal.SIGINT)
        assert serve.wait(60) == 0
    assert "Traceback" not in log.read_text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    shown = {str(path): path.read_bytes() for path in files if path.suffix in (".log", "")}
    assert log.name in {Path(name).name for name in shown}
    for name, content in shown.items():
        for password in PASSWORDS.values():
            assert password.encode() not in content, name
