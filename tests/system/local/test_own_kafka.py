"""`make up` and `make demo` create and load nothing in the user's own Kafka by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from local import http
from local.demo.datasets import demo_topics
from local.demo.load import end_offsets
from local.errors import LocalError
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.ports import free_ports
from local.settings import REPOSITORY, StackSettings
from local.spark_views import declared_views
from local.stack.stack import Stack
from local.tailer.tailer import Tailer
from local.waiting import wait_until
from tests.support.brokers import PasswordBroker
from tests.support.topics import Writer


@pytest.mark.parametrize("sasl", [False, True], ids=["open", "with a password"])
def test_up_serves_the_users_views_and_creates_nothing(tmp_path: Path, sasl: bool) -> None:
    """The Kafka would create any topic that a client requests."""
    properties = {"auto.create.topics.enable": "true"}
    with PasswordBroker(tmp_path / "kafka", {"queryable": "secret"}, properties=properties) as own:
        create_topics(quiet_admin(own.bootstrap_servers), [Topic("orders", 2)])
        Writer(own.bootstrap_servers).send("orders", [(b"a", b"1")])
        views = tmp_path / "views.toml"
        views.write_text(
            "".join(
                f'[views.{name}]\ntopic = "{name}"\npath = "/{name}"\nkey = "string"\n'
                'value = "json"\n'
                for name in ("orders", "flights")
            )
        )
        if sasl:
            with views.open("a") as file:
                file.write(
                    '[kafka]\n"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "PLAIN"\n'
                    '"sasl.username" = "queryable"\n"sasl.password" = "secret"\n'
                )
        proxy, backend = free_ports(2)
        settings = StackSettings(
            bootstrap_servers=own.sasl_bootstrap_servers if sasl else own.bootstrap_servers,
            proxy_port=proxy, backend_port=backend, instances=1, run_dir=tmp_path / "run",
            views=views,
        )  # fmt: skip
        messages: list[str] = []
        with Stack(settings) as stack:
            stack.start(messages.append)
            assert set(stack._children.children) == {"backend-1", "nginx"}
            url = f"{settings.url}/orders/a"
            wait_until(lambda: http.get(url).status == 200, 30, "the answer")
            assert http.get(url).body == b'{"key":"a","value":1}'
            assert b"topic-missing" in http.get(f"{settings.url}/flights/a").body
        topics = set(quiet_admin(own.bootstrap_servers).list_topics(timeout=10).topics)
        of_the_demo = demo_topics(declared_views(REPOSITORY / "views.toml").values())
        assert topics & {topic.name for topic in of_the_demo} == set()
        assert {name for name in topics if not name.startswith("__")} == {"orders"}
        assert sum(end_offsets(own.bootstrap_servers, "orders").values()) == 1
    text = "\n".join(messages)
    assert "QUERYABLE_DEMO_DATA=yes" in text
    assert "missing topics: flights" in text


def test_missing_topics_of_sparks_views_are_an_error(broker: Broker, tmp_path: Path) -> None:
    proxy, backend = free_ports(2)
    settings = StackSettings(
        bootstrap_servers=broker.bootstrap_servers, proxy_port=proxy, backend_port=backend,
        instances=1, run_dir=tmp_path / "run", spark_views="visits",
    )  # fmt: skip
    # other tests may have created one of them on this broker
    existing = quiet_admin(broker.bootstrap_servers).list_topics(timeout=10).topics
    missing = ", ".join(sorted({"weblog"} - existing.keys()))
    assert missing
    with pytest.raises(LocalError, match=rf"missing topics: {missing}\. Spark reads"):
        Stack(settings).start(lambda _: None)


def test_loader_and_tailer_use_the_password_of_the_users_kafka(
    broker: PasswordBroker, tmp_path: Path
) -> None:
    kafka = {
        "bootstrap.servers": broker.sasl_bootstrap_servers, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN", "sasl.username": "queryable", "sasl.password": "secret",
    }  # fmt: skip
    topic = f"own-kafka-{tmp_path.name}"
    create_topics(quiet_admin(broker.bootstrap_servers), [Topic(topic, 1)])
    (tmp_path / "access.log").write_bytes(b'{"client":"::1"}\n')
    tailer = Tailer(tmp_path / "access.log", tmp_path / "position", kafka, topic)
    assert tailer.step() == 1
    tailer.close()
    assert sum(end_offsets(kafka, topic).values()) == 1
