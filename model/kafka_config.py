"""Translates the `[kafka]` table for three clients: confluent-kafka, kafka-python and Spark's Java
client.

The table uses the names of librdkafka (its CONFIGURATION.md). Connection settings are translated
for the other two clients. A connection setting that a client does not support is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.problems import ConfigurationError

# A setting of each topic that this project creates: the broker rejects records whose timestamp is
# more than an hour ahead of its clock. Brokers before Kafka 3.6 do not know the setting and refuse
# to create a topic with it.
NOT_FROM_THE_FUTURE = {"message.timestamp.after.max.ms": "3600000"}

# librdkafka -> kafka-python
_KAFKA_PYTHON = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "ssl.cipher.suites": "ssl_ciphers",
}

# librdkafka -> Java
_JAVA = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}

# Connection settings need a counterpart in every client. Other settings are for librdkafka only.
_CONNECTION_PREFIXES = ("security.", "sasl.", "ssl.", "enable.ssl")


def for_librdkafka(table: Mapping[str, str]) -> dict[str, Any]:
    """The unchanged table. librdkafka itself rejects unknown settings."""
    return dict(table)


def for_kafka_python(table: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for kafka-python's clients. Raises ConfigurationError for unsupported
    connection settings."""
    settings: dict[str, Any] = {}
    for name, value in table.items():
        if name in _KAFKA_PYTHON:
            settings[_KAFKA_PYTHON[name]] = value
        elif name == "ssl.endpoint.identification.algorithm":
            settings["ssl_check_hostname"] = value == "https"
        elif name == "enable.ssl.certificate.verification":
            if value != "true":
                raise _unsupported(name, "kafka-python always verifies certificates")
        elif name.startswith(_CONNECTION_PREFIXES):
            raise _unsupported(name, "kafka-python has no counterpart")
    if "security_protocol" in settings:
        settings["security_protocol"] = str(settings["security_protocol"]).upper()
    return settings


def for_java(table: Mapping[str, str]) -> dict[str, str]:
    """Settings of Kafka's Java clients, without Spark's prefix `kafka.`. Raises ConfigurationError
    for unsupported connection settings."""
    settings: dict[str, str] = {}
    username, password = table.get("sasl.username"), table.get("sasl.password")
    mechanism = table.get("sasl.mechanism") or table.get("sasl.mechanisms")
    if username is not None and password is not None:
        module = (
            "scram.ScramLoginModule" if "SCRAM" in (mechanism or "") else "plain.PlainLoginModule"
        )
        settings["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f"username={_quote(username)} password={_quote(password)};"
        )
    if "ssl.ca.location" in table:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.location"] = table["ssl.ca.location"]
    for name, value in table.items():
        if name in ("sasl.username", "sasl.password", "ssl.ca.location"):
            continue
        if name in ("ssl.certificate.location", "ssl.key.location", "ssl.key.password"):
            raise _unsupported(
                name, "Java wants certificate and key in one PEM file: ssl.keystore.*"
            )
        if name in _JAVA:
            settings[_JAVA[name]] = value
        elif name == "enable.ssl.certificate.verification":
            if value != "true":
                raise _unsupported(name, "Java always verifies certificates")
        elif name.startswith(_CONNECTION_PREFIXES):
            raise _unsupported(name, "Java has no counterpart")
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl.endpoint.identification.algorithm"] = ""  # Java's value for "none"
    if "security.protocol" in settings:
        settings["security.protocol"] = settings["security.protocol"].upper()
    return settings


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unsupported(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"[kafka] {name}: {why}")
