import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from local import ports
from local.errors import LocalError
from local.kafka.broker import Broker, quiet_admin
from local.kafka.java import find_java
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from tests.support.brokers import PasswordBroker, pause, resume

USERS = {"alice": "it's a secret"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PasswordBroker]:
    """A broker for this module, which stops and kills it."""
    with PasswordBroker(tmp_path_factory.mktemp("own"), USERS) as running:
        yield running


def produce(broker: Broker, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def consume(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = consumer.consume(count, timeout=20)
        return [record.value() or b"" for record in records]
    finally:
        consumer.close()


def test_data_survive_a_stop_and_a_kill(own: Broker) -> None:
    create_topics(quiet_admin(own.bootstrap_servers), [Topic("kept", 1)])
    produce(own, "kept", [b"1"])
    servers = own.bootstrap_servers
    own.stop()
    assert not own.is_running
    own.start()
    produce(own, "kept", [b"2"])
    own.kill()
    own.restart()
    assert own.bootstrap_servers == servers
    assert consume(own, "kept", 2) == [b"1", b"2"]


def test_a_paused_broker_does_not_answer_until_it_is_resumed(own: Broker) -> None:
    pause(own)
    try:
        with pytest.raises(KafkaException):
            quiet_admin(own.bootstrap_servers).list_topics(timeout=0.5)
    finally:
        resume(own)
    assert quiet_admin(own.bootstrap_servers).list_topics(timeout=20).brokers


def sasl_client(broker: PasswordBroker, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
            "log_level": 0,
        }
    )


def test_the_sasl_listener_requires_the_right_password(own: PasswordBroker) -> None:
    assert sasl_client(own, USERS["alice"]).list_topics(timeout=20).brokers
    with pytest.raises(KafkaException):
        sasl_client(own, "guessed").list_topics(timeout=1)


def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        broker = Broker(tmp_path, port=port, port_setting="QUERYABLE_BROKER_PORT")
        with pytest.raises(LocalError, match=f"port {port} .* QUERYABLE_BROKER_PORT"):
            broker.start()


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(LocalError, match=f"cannot write .*{tmp_path}/file/data"):
        Broker(tmp_path / "file" / "data").start()


def test_a_broker_that_dies_at_its_start_shows_its_log(tmp_path: Path) -> None:
    Broker(tmp_path)._lay_out()
    (tmp_path / "logs").mkdir()
    another = "version=1\ncluster.id=another\nnode.id=77\n"
    (tmp_path / "logs" / "meta.properties").write_text(another)
    with pytest.raises(LocalError, match=r"(?s)ended with status 1.*Stored node id 77"):
        Broker(tmp_path).start()


def test_bad_properties_are_an_error_of_the_format(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"(?s)could not format.*num\.io\.threads"):
        Broker(tmp_path, properties={"num.io.threads": "many"}).start()


def test_a_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    find_java.cache_clear()
    try:
        with pytest.raises(LocalError, match="no java in JAVA_HOME"):
            Broker(tmp_path / "data").start()
    finally:
        find_java.cache_clear()


def test_the_broker_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from local.kafka.broker import Broker\n"
        "broker = Broker(Path(sys.argv[1])); broker.start(); print(broker.port, flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: ports.is_free(port), 20, "the orphaned broker to end")
