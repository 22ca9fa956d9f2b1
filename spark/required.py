"""Settings of Spark and of Kafka's Java client that must not be changed, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spark.errors import JobError

_RESULTS = "the results of the views depend on it"
_STATE = "checkpoints depend on it"
_ORDER = "otherwise an older value could be written after a newer one"
_PARTITION = "readers look for a key in the partition that Kafka's default partitioner chooses"


class Required(NamedTuple):
    """The only value that is allowed, and the reason."""

    value: str
    why: str


_STREAMING = "spark.sql.streaming"
_STORE = f"{_STREAMING}.stateStore"

SPARK = {
    "spark.sql.session.timeZone": Required("UTC", _RESULTS),
    "spark.sql.ansi.enabled": Required("true", _RESULTS),
    "spark.sql.legacy.timeParserPolicy": Required("CORRECTED", _RESULTS),
    # Java converts case like ICU, whose tables take 1.6 s of CPU time to load.
    "spark.sql.icu.caseMappings.enabled": Required("false", _RESULTS),
    # The rule makes upper(lower(a)) upper(a), which differs for İ.
    "spark.sql.optimizer.excludedRules": Required(
        "org.apache.spark.sql.catalyst.optimizer.SimplifyCaseConversionExpressions", _RESULTS
    ),
    # Of several fields with one name, the last counts, as in Python's decoder (spark.realtime).
    "spark.sql.variant.allowDuplicateKeys": Required("true", _RESULTS),
    f"{_STREAMING}.kafka.useDeprecatedOffsetFetching": Required("false", _RESULTS),
    f"{_STREAMING}.multipleWatermarkPolicy": Required("min", _RESULTS),
    # Visits end, and state is freed, in micro-batches without records.
    f"{_STREAMING}.noDataMicroBatches.enabled": Required("true", _RESULTS),
    f"{_STREAMING}.unsupportedOperationCheck": Required("true", _RESULTS),
    f"{_STREAMING}.statefulOperator.checkCorrectness.enabled": Required("true", _RESULTS),
    f"{_STORE}.providerClass": Required(
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider", _STATE
    ),
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": Required("true", _STATE),
    f"{_STORE}.rocksdb.formatVersion": Required("5", _STATE),
    f"{_STORE}.encodingFormat": Required("unsaferow", _STATE),
    f"{_STORE}.stateSchemaCheck": Required("true", _STATE),
    "spark.speculation": Required("false", _ORDER),
    # One attempt per task: a query whose task fails restarts after all its tasks have ended.
    "spark.task.maxFailures": Required("1", _ORDER),
    "spark.stage.maxConsecutiveAttempts": Required("1", _ORDER),
    f"{_STREAMING}.stopActiveRunOnRestart": Required("true", _ORDER),
    # An executor that cannot reach the driver ends after some 60 s, before the driver considers it
    # lost, which is after 120 s.
    "spark.executor.heartbeatInterval": Required("10s", _ORDER),
    "spark.executor.heartbeat.maxFailures": Required("6", _ORDER),
    "spark.network.timeout": Required("120s", _ORDER),
}

KAFKA = {
    "isolation.level": Required("read_committed", _RESULTS),
    "acks": Required("all", "otherwise Kafka may lose records that it has confirmed"),
    "enable.idempotence": Required("true", _ORDER),
    "max.in.flight.requests.per.connection": Required("5", _ORDER),
    "retries": Required("2147483647", _ORDER),
    # Bounds the time in which a record of a failed task may still be sent.
    "delivery.timeout.ms": Required("120000", _ORDER),
    "partitioner.ignore.keys": Required("false", _PARTITION),
}
_KAFKA_FORBIDDEN = {
    "partitioner.class": _PARTITION,
    "transactional.id": "Spark's sink has no transactions",
}

_WITH_RETRIES = re.compile(r"local\[[^,\]]*,\s*(?!1\s*\])")


def spark_values() -> dict[str, str]:
    """The required settings of Spark."""
    return {name: required.value for name, required in SPARK.items()}


def kafka_values() -> dict[str, str]:
    """The required settings of Kafka's Java client."""
    return {name: required.value for name, required in KAFKA.items()}


def check_spark(settings: Mapping[str, str]) -> None:
    """Raises ``JobError`` if a setting of Spark contradicts a required one."""
    master = settings.get("spark.master", "")
    if _WITH_RETRIES.match(master):
        raise JobError(f"spark.master={master}: it must not repeat tasks: {_ORDER}.")
    for message in _contradictions(settings, SPARK):
        raise JobError(message)


def check_kafka(settings: Mapping[str, str]) -> None:
    """Raises ``JobError`` if a setting of Kafka's Java client contradicts a required one."""
    for message in _contradictions(settings, KAFKA):
        raise JobError(message)
    for name, why in _KAFKA_FORBIDDEN.items():
        if name in settings:
            raise JobError(f"{name} cannot be set: {why}.")


def _contradictions(settings: Mapping[str, str], required: Mapping[str, Required]) -> Iterator[str]:
    for name, (value, why) in required.items():
        if settings.get(name, value).strip().lower() != value.lower():
            yield f"{name}={settings[name]}: it must be {value}: {why}."
