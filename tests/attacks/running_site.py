"""Starts what is attacked: three backends, nginx, and a topic that is written to meanwhile."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.settings import REPOSITORY
from tests.attacks.attack import CHANGING, PARTITIONS, VIEW, Site
from tests.attacks.authentication import (
    SECRET,
    TOKEN_KEY,
    Authentication,
    authentication,
)
from tests.attacks.honest import value_of
from tests.support.backends import Backend
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.in_process.protobuf_examples import SHOP, descriptor_set
from tests.support.nginx import Nginx
from tests.support.topics import Writer

KEYS = [f"order {number}" for number in range(20_000)]
_CHANGES = 400  # records per second, of 1 KB

TIMEOUT = 2  # s
SETTINGS = {
    # an attack shows what a time-out does only if it lasts longer than the time-out
    "request_timeout": str(TIMEOUT),
    "send_timeout": str(TIMEOUT),
    "standby_replicas": "1",
}
NGINX = {
    "client_header_timeout 10s;": f"client_header_timeout {TIMEOUT}s;",
    "client_body_timeout 10s;": f"client_body_timeout {TIMEOUT}s;",
    "send_timeout 30s;": f"send_timeout {TIMEOUT}s;",
    "lingering_time 10s;": f"lingering_time {TIMEOUT}s;",
    "lingering_timeout 5s;": f"lingering_timeout {TIMEOUT}s;",
    "include limits.conf;": "include limits-of-attacks.conf;",
}
AVRO = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "numbers", "type": {"type": "array", "items": "int"}},
        {"name": "next", "type": ["null", "Node"]},
    ],
}


@dataclass
class RunningSite:
    site: Site
    backends: list[Backend]
    nginx: Nginx

    def pids(self) -> list[int]:
        """Of nginx and the backends, with their workers."""
        own = [self.nginx.process.pid, *self.nginx.workers()]
        for backend in self.backends:
            own += [backend.pid, *backend.workers()]
        return own


@contextmanager
def running_site(
    broker: Broker, folder: Path, is_authenticated: bool = False
) -> Iterator[RunningSite]:
    """`is_authenticated`: whether requests need tokens and signatures."""
    topic = f"attacks-{uuid.uuid4().hex[:8]}"
    others = {name: f"{topic}-{name}" for name in ("avro", "protobuf")}
    admin = quiet_admin(broker.bootstrap_servers)
    create_topics(admin, [Topic(name, PARTITIONS, {}) for name in (topic, *others.values())])
    writer = Writer(broker.bootstrap_servers)
    writer.table(topic, {key: value_of(key) for key in (*KEYS, *CHANGING)})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shop.desc").write_bytes(descriptor_set(SHOP))
    (folder / "node.avsc").write_text(json.dumps(AVRO))
    protobuf = {"value": "protobuf", "value_schema": "shop.desc", "value_message": "shop.Order"}
    views = views_toml(
        **{
            VIEW: {"topic": topic, "append": "on"},
            "avro": {
                "topic": others["avro"], "append": "on",
                "key": "avro", "key_schema": "node.avsc",
            },
            "protobuf": {"topic": others["protobuf"], "append": "on", **protobuf},
        }
    )  # fmt: skip
    secrets = authentication(folder) if is_authenticated else Authentication({}, {}, "")
    with ExitStack() as stack:
        settings = {**SETTINGS, **secrets.settings}
        deployment = stack.enter_context(
            Deployment(folder, broker.bootstrap_servers, views, **settings)
        )
        deployment.token = secrets.token
        backends = [deployment.new().launch() for _ in range(3)]
        settle(backends)
        limits = (REPOSITORY / "proxy" / "limits.conf").read_text()
        only_readers = limits.replace("127.0.0.0/8", "127.0.0.1/32")  # hostile clients are limited
        assert only_readers != limits
        (folder / "nginx").mkdir()
        (folder / "nginx" / "limits-of-attacks.conf").write_text(only_readers)
        addresses = ",".join(f"127.0.0.1:{backend.port}" for backend in backends)
        nginx = stack.enter_context(
            Nginx(folder / "nginx", addresses, secrets.environment, changes=NGINX)
        )
        nginx.token = secrets.token
        nginx.wait_for_map(backends[0].epoch)
        attacked = backends[0]
        site = Site(
            proxy=nginx.port,
            backend=attacked.port,
            instance=attacked.id,
            topic=topic,
            keys=KEYS[:2000],
            log=str(attacked.log_path),
            token=secrets.token,
            token_key=TOKEN_KEY if is_authenticated else "",
            cluster_secret=SECRET if is_authenticated else "",
        )
        stack.enter_context(_changes(writer, topic))
        yield RunningSite(site, backends, nginx)


@contextmanager
def _changes(writer: Writer, topic: str) -> Iterator[None]:
    """Changes some keys meanwhile."""
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.wait(0.1):
            now = {"at": time.time(), "filler": "y" * 1000, "number": number}
            for _ in range(_CHANGES // 10 // len(CHANGING)):
                writer.table(topic, dict.fromkeys(CHANGING, now))
            number += 1

    thread = threading.Thread(target=work, name="changes")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
