import json
from pathlib import Path

import pytest

from local.errors import LocalError
from local.kafka.broker import Broker
from local.ports import LOOPBACK, free_ports
from local.settings import StackSettings
from local.stack.stack import Stack
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer


def test_a_kafka_that_does_not_answer_is_named(tmp_path: Path) -> None:
    [proxy, backend, unused] = free_ports(3)
    settings = StackSettings(
        proxy_port=proxy,
        backend_port=backend,
        instances=1,
        bootstrap_servers=f"{LOOPBACK}:{unused}",
        run_dir=tmp_path,
    )
    with pytest.raises(LocalError, match=rf"Kafka at .*:{unused} .*BOOTSTRAP_SERVERS"):
        Stack(settings).start(print)


def test_a_stack_does_not_wait_for_static_topics(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    flights, planes = make_topic(), make_topic()
    writer = Writer(broker.bootstrap_servers)
    for topic in (flights, planes):
        writer.send(topic, [(b"k", b"v")])
    views = tmp_path / "views.toml"
    views.write_text(
        f'[views.makers.derive]\nfrom = "{flights}"\nfields = {{ tailnum = "string" }}\n'
        "key = \"coalesce(plane.maker, '')\"\ncount = true\n\n[views.makers.derive.join.plane]\n"
        f'from = "{planes}"\nstatic = true\non = "tailnum"\nfields = {{ maker = "string" }}\n'
    )
    settings = StackSettings(
        views=views, run_dir=tmp_path, bootstrap_servers=broker.bootstrap_servers
    )
    stack = Stack(settings)
    assert stack.spark_views["makers"].sources == (flights, planes)
    progress = {"state": "running", "restarts": 0, "is_final": False, "last_error": None}
    progress["source_offsets"] = {flights: {"0": 1}}
    (tmp_path / "spark-progress.json").write_text(json.dumps({"makers": progress}))
    stack.wait_for_spark(["makers"], 5)
