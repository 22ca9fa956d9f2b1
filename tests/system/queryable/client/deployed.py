"""Two backends with a view of every format and every store, nginx in front, and all clients."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from model.partitioner import partition_of
from tests.support.clients.both_clients import AnyClient, all_clients, exact
from tests.support.deployment import views_toml
from tests.support.in_process import protobuf_examples as protobuf
from tests.support.in_process.avro_examples import ORDER, binary
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.reference.records import KEYS
from tests.support.topics import Writer

PARTITIONS = 2
MINUTE = 60_000
NOW = int(time.time() * 1000) // MINUTE * MINUTE - 60 * MINUTE
FORMATS = list(KEYS)
NAMES = ["anna", "a/b", "東京", "a", ""]
NAN = struct.pack(">d", float("nan"))
SEEDED = {**KEYS, "float64": [*KEYS["float64"], NAN, b"\xff\xf8" + bytes(6)]}
VALUES = {
    "string": b'a "text"', "bytes": b"\0\xff", "int32": struct.pack(">i", -5),
    "int64": struct.pack(">q", 2**60 + 1), "float64": struct.pack(">d", float("-inf")),
    "uuid": b"00000000-0000-0000-0000-0000000000ff", "json": b'{"n": 12345678901234567890123}',
}  # fmt: skip

partitioner = partition_of("murmur2")


class Deployed:
    """The deployment and all clients of it."""

    def __init__(self, port: int, clients: list[AnyClient]) -> None:
        self.port = port
        self.clients = clients

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The result, after a check that it is the same for all clients."""
        results = [getattr(client, name)(*args, **kwargs) for client in self.clients]
        for client, result in zip(self.clients, results, strict=True):
            assert exact(result) == exact(results[0]), (client, name, args, kwargs)
        return results[0]


@pytest.fixture(scope="module")
def deployed(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Deployed]:
    views: dict[str, dict[str, str]] = {}
    for form in FORMATS:
        topic = make_topic(PARTITIONS)
        views[form] = {"topic": topic, "key": form, "value": form, "append": "on"}
        writer.send(topic, [(key, VALUES[form]) for key in SEEDED[form]])
    orders, nones, numbers_of, *timed = (make_topic(PARTITIONS) for _ in range(7))
    views["avro"] = {"topic": orders, "value": "avro", "value_schema": "order.avsc"}
    bills = make_topic(PARTITIONS)
    views["protobuf"] = {
        "topic": bills, "append": "on",
        "key": "protobuf", "key_schema": "shop.desc", "key_message": "shop.Key",
        "value": "protobuf", "value_schema": "shop.desc", "value_message": "shop.Order",
    }  # fmt: skip
    writer.send(bills, [(protobuf.key(n), protobuf.order(order_id=n)) for n in range(5)])
    views["none"] = {"topic": nones, "value": "none"}
    views["ranked"] = {"topic": numbers_of}
    writer.send(orders, [(b"a", binary(ORDER, {"id": 2**60, "price": 0.5, "note": None}))])
    writer.send(nones, [(b"a", b"anything")])
    writer.table(numbers_of, {f"k{n}": {"n": n % 7, "x": {"y": n}} for n in range(30)})
    windows, series, sessions, versions = timed
    views["windows"] = {"topic": windows, "store": "window", "window_size": "1m"}
    views["series"] = {"topic": series, "store": "window", "key": "int32", "value": "int64"}
    views["sessions"] = {"topic": sessions, "store": "session"}
    views["versions"] = {"topic": versions, "store": "versioned", "retention": "30m"}
    send_timed(writer, windows, series, sessions, versions)
    deployment = module_deploy(views_toml(**views))
    (deployment.folder / "order.avsc").write_text(json.dumps(ORDER))
    (deployment.folder / "shop.desc").write_bytes(protobuf.DESCRIPTORS)
    backends = deployment.start(2)
    nginx = deployment.proxy()
    with all_clients(nginx.port) as clients:
        yield Deployed(nginx.port, clients)
    for backend in backends:
        assert "Traceback" not in backend.log()


def send_timed(writer: Writer, windows: str, series: str, sessions: str, versions: str) -> None:
    for name in NAMES:
        key = name.encode()
        partition = partitioner(key, PARTITIONS)
        for minute in range(6):
            start = NOW + minute * MINUTE
            record = key + struct.pack(">qi", start, minute % 2)
            writer.send_timed(windows, [(record, b"%d" % minute, start, partition)])
            stretch = key + struct.pack(">qq", start + 30_000, start)
            writer.send_timed(sessions, [(stretch, b'{"n": %d}' % minute, start, partition)])
            value = None if minute == 3 else b"%d" % minute
            writer.send_timed(versions, [(key, value, start, partition)])
    for number in (-1, 0, 7):
        key = struct.pack(">i", number)
        for n in (1, 2):
            record = key + struct.pack(">qi", NOW, n)
            partition = partitioner(key, PARTITIONS)
            writer.send_timed(series, [(record, struct.pack(">q", n), NOW, partition)])
