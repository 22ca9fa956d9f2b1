"""Tests of the [kafka] table: settings are translated for each client, or refused."""

import pytest

from model.kafka_config import for_java, for_kafka_python, for_librdkafka
from model.problems import ConfigurationError

SASL = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": 'se"cr\\et',
}
TLS = {
    "security.protocol": "SSL",
    "ssl.ca.location": "ca.pem",
    "ssl.endpoint.identification.algorithm": "none",
}


def test_librdkafka_gets_the_unchanged_table() -> None:
    assert for_librdkafka(SASL) == SASL
    assert for_librdkafka({}) == {}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        (
            SASL,
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "alice",
                "sasl_plain_password": 'se"cr\\et',
            },
        ),
        (TLS, {"security_protocol": "SSL", "ssl_cafile": "ca.pem", "ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl_check_hostname": True}),
        (
            {"ssl.certificate.location": "c.pem", "ssl.key.location": "k.pem"},
            {"ssl_certfile": "c.pem", "ssl_keyfile": "k.pem"},
        ),
        ({"enable.ssl.certificate.verification": "true"}, {}),
        # other settings are for librdkafka only
        ({"socket.keepalive.enable": "true", "fetch.wait.max.ms": "10"}, {}),
    ],
)
def test_kafka_python(table: dict[str, str], expected: dict[str, object]) -> None:
    assert for_kafka_python(table) == expected


def test_kafka_python_knows_the_names() -> None:
    from kafka import KafkaConsumer

    all_settings = {
        **SASL,
        **TLS,
        **{f"ssl.{kind}.location": "x" for kind in ("certificate", "key", "crl")},
        "ssl.key.password": "x",
        "ssl.cipher.suites": "x",
        "sasl.kerberos.service.name": "kafka",
    }
    assert set(for_kafka_python(all_settings)) <= set(KafkaConsumer.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    "name", ["ssl.keystore.location", "sasl.oauthbearer.config", "ssl.ca.pem", "ssl.curves.list"]
)
def test_connection_settings_without_a_counterpart_are_refused(name: str) -> None:
    for translate in (for_kafka_python, for_java):
        with pytest.raises(ConfigurationError, match=rf"\[kafka\] {name}: "):
            translate({name: "x"})


def test_clients_that_always_verify_certificates_refuse_to_disable_it() -> None:
    table = {"enable.ssl.certificate.verification": "false"}
    for translate in (for_kafka_python, for_java):
        with pytest.raises(ConfigurationError, match="always verif"):
            translate(table)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        (
            SASL,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
                'required username="alice" password="se\\"cr\\\\et";',
            },
        ),
        (
            {**SASL, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.password": "p"},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
                'required username="alice" password="p";',
            },
        ),
        (
            TLS,
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "ca.pem",
                "ssl.endpoint.identification.algorithm": "",
            },
        ),
        (
            {"ssl.endpoint.identification.algorithm": "https"},
            {"ssl.endpoint.identification.algorithm": "https"},
        ),
        ({"socket.keepalive.enable": "true"}, {}),
    ],
)
def test_java(table: dict[str, str], expected: dict[str, str]) -> None:
    assert for_java(table) == expected


def test_java_does_not_support_separate_files_for_certificate_and_key() -> None:
    for name in ("ssl.certificate.location", "ssl.key.location"):
        with pytest.raises(ConfigurationError, match="one PEM file"):
            for_java({name: "x"})
