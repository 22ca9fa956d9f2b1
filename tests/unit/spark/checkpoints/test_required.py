"""Settings that nobody may change."""

from __future__ import annotations

import pytest

from spark.errors import JobError
from spark.options import parse
from spark.required import KAFKA, SPARK, check_kafka, check_spark
from spark.session import settings
from spark.sources import Kafka


@pytest.mark.parametrize("name", SPARK)
def test_another_value_of_a_required_setting_of_spark_is_an_error(name: str) -> None:
    value, why = SPARK[name]
    other = {"true": "false", "false": "true"}.get(value, "7")
    with pytest.raises(JobError, match=f"{name}={other}: it must be {value}: {why}"):
        settings({name: other}, [])
    assert settings({name: value.upper()}, [])[name] == value
    assert settings({}, [])[name] == value


@pytest.mark.parametrize("name", KAFKA)
def test_another_value_of_a_required_setting_of_kafka_is_an_error(name: str) -> None:
    value, why = KAFKA[name]
    other = {"true": "false", "false": "true"}.get(value, "7")
    with pytest.raises(JobError, match=f"{name}={other}: it must be {value}: {why}"):
        check_kafka({name: other})
    check_kafka({name: value.upper()})
    # Kafka's options for Spark have the required value in any case.
    assert Kafka("", {name: other}).spark()[f"kafka.{name}"] == value


@pytest.mark.parametrize("name", ["partitioner.class", "transactional.id"])
def test_some_settings_of_kafka_cannot_be_set(name: str) -> None:
    with pytest.raises(JobError, match=f"{name} cannot be set"):
        check_kafka({name: "x"})


@pytest.mark.parametrize("master", ["local[2,4]", "local[*, 2]"])
def test_a_local_master_repeats_no_tasks(master: str) -> None:
    with pytest.raises(JobError, match="it must not repeat tasks"):
        check_spark({"spark.master": master})
    for allowed in ("local", "local[2]", "local[*,1]", "local-cluster[2,1,1024]", "spark://a:1"):
        check_spark({"spark.master": allowed})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--conf", "spark.speculation=true"),
        ("--kafka-option", "acks=1"),
        ("--kafka-option", "max.in.flight.requests.per.connection=6"),
        ("--master", "local[2,4]"),
    ],
)
def test_the_command_line_names_the_option(
    option: str, value: str, capsys: pytest.CaptureFixture[str], jars: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(["--checkpoint-dir", "x", "--jars", jars, option, value])
    assert raised.value.code == 2
    error = capsys.readouterr().err
    assert f"{option.replace('--master', '--conf')}: " in error
    assert "otherwise" in error


@pytest.fixture
def jars(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("jars")
    (folder / "a.jar").touch()
    return str(folder)
