"""Spark's Java client authenticates by each mechanism, and no secret leaves its own file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.settings import REPOSITORY
from model.kafka.config import for_java
from spark.errors import Unavailable
from spark.kafka_admin import KafkaAdmin
from spark.sources import Kafka
from tests.support.deployment import views_toml
from tests.support.secure_kafka.broker import LIMITED, MECHANISMS, PASSWORDS, SecureBroker
from tests.unit.model.kafka.test_config_providers import PROPERTIES


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_spark_reads_and_writes_with_each_mechanism(
    mechanism: str, session: SparkSession, secure_broker: SecureBroker
) -> None:
    topic = f"spark-by-{mechanism}"
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic(topic, 1)])
    kafka = Kafka(secure_broker.address(mechanism), for_java(secure_broker.java_table(mechanism)))
    with KafkaAdmin(session, kafka) as admin:
        assert admin.topics([topic])[topic].partitions == 1
    rows = session.createDataFrame([("k", mechanism)], "key string, value string")
    rows.write.format("kafka").options(**kafka.spark()).option("topic", topic).save()
    read = session.read.format("kafka").options(**kafka.spark()).option("subscribe", topic).load()
    assert [bytes(row["value"]).decode() for row in read.collect()] == [mechanism]
    plan = str(read._jdf.queryExecution().toString())
    assert not any(text in f"{kafka.spark()} {plan}" for text in PASSWORDS.values())


def test_spark_authenticates_with_a_java_class_instead_of_a_function(
    session: SparkSession, secure_broker: SecureBroker, tmp_path: Path
) -> None:
    """The class is Kafka's own; it can also read a token from a file."""
    token = tmp_path / "token"
    token.write_text(secure_broker.tokens.token())
    table = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(secure_broker.authority.path),
        "sasl.oauth.token": "company.tokens:not_called",
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
    }
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic("spark-by-class", 1)])
    settings = for_java(table) | {"sasl.oauthbearer.token.endpoint.url": token.as_uri()}
    with KafkaAdmin(session, Kafka(secure_broker.address("OAUTHBEARER"), settings)) as admin:
        assert admin.topics(["spark-by-class"])["spark-by-class"].partitions == 1


def test_a_setting_is_unknown_if_it_may_not_be_read_and_unavailable_after_another_error(
    session: SparkSession, secure_broker: SecureBroker
) -> None:
    """Regression: every error but a time-out meant that the job may not read it."""
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic("described", 1)])
    table = secure_broker.java_table("PLAIN")
    limited = {"sasl.username": LIMITED, "sasl.password": secure_broker.reference(LIMITED)}
    address = secure_broker.address("PLAIN")
    with KafkaAdmin(session, Kafka(address, for_java(table))) as admin:
        assert admin.config("described", "delete.retention.ms") == "86400000"
        assert admin.config("described", "no.such.setting") is None
        with pytest.raises(Unavailable, match="UnknownTopicOrPartition"):
            admin.config("no-such-topic", "delete.retention.ms")
    with KafkaAdmin(session, Kafka(address, for_java(table | limited))) as admin:
        assert admin.config("described", "delete.retention.ms") is None


def test_java_reads_properties_files_as_this_project_does(session: SparkSession) -> None:
    java: Any = session._jvm
    for text, entries in PROPERTIES.items():
        properties = java.java.util.Properties()
        properties.load(java.java.io.StringReader(text))
        assert dict(properties) == entries, text


def test_a_secret_without_a_reference_is_not_shown_by_spark(session: SparkSession) -> None:
    jvm: Any = session._jvm
    table = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "s3cret"}
    options = Kafka("broker:9092", for_java(table)).spark()
    pairs = jvm.PythonUtils.toScalaMap(options)
    assert "s3cret" in str(pairs.toString())
    shown = session._jsparkSession.sessionState().conf().redactOptions(pairs)
    assert "s3cret" not in str(shown.toString())
    assert "PLAIN" in str(shown.toString())


def test_a_job_with_a_wrong_password_says_why(secure_broker: SecureBroker, tmp_path: Path) -> None:
    table = secure_broker.table("PLAIN") | {"sasl.password": "${env:KAFKA_PASSWORD}"}
    views = tmp_path / "views.toml"
    entry = {"topic": "word-count", "value": "int64", "spark_view": "spark.views.word_count:VIEW"}
    views.write_text(views_toml(table, word_count=entry))
    secret = "Wr0ng-S3cret"
    log = tmp_path / "log"
    with log.open("wb") as output:
        job = subprocess.Popen(
            [
                *(sys.executable, "-m", "spark.run", "--log-level", "debug"),
                *("--topics-deadline", "1", "--views-toml", str(views)),
                *("--bootstrap-servers", secure_broker.address("PLAIN")),
                *("--checkpoint-dir", str(tmp_path / "checkpoints")),
                *("--progress", str(tmp_path / "progress")),
            ],
            cwd=REPOSITORY,
            env={**os.environ, "KAFKA_PASSWORD": secret},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        lines = set()
        deadline = time.monotonic() + 90
        while job.poll() is None and time.monotonic() < deadline:
            lines |= command_lines(job.pid)
            time.sleep(0.2)
        assert job.wait(1) == 1
    said = log.read_text()
    assert "SaslAuthenticationException: Authentication failed" in said
    assert any(b"java" in line for line in lines)
    files = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for where, content in [*files.items(), *((repr(line), line) for line in lines)]:
        assert secret.encode() not in content, where


def command_lines(pid: int) -> set[bytes]:
    """Those of a process and its descendants (Linux)."""
    try:
        found = {Path(f"/proc/{pid}/cmdline").read_bytes()}
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return set()
    return found.union(*(command_lines(int(child)) for child in children.split()))
