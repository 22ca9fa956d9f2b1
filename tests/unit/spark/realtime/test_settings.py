"""The triggers of a view: its own, else the job's. Needs no session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark.formats.decoders import TextDecoder
from spark.options import parse
from spark.settings import Settings
from spark.sources import Kafka
from spark.view import View

VIEW = View(source="texts", decoder=TextDecoder(), derive=lambda texts: texts)
JOB = Settings(views=[VIEW], kafka=Kafka("127.0.0.1:9092"), checkpoint_dir="x")


@pytest.mark.parametrize(
    ("own", "job", "is_real_time", "micro_batches", "dead_letters"),
    [
        ("", "1 second", False, "1 second", "5 seconds"),
        ("", "0 seconds", False, "0 seconds", "5 seconds"),
        ("", "real-time", True, "200 milliseconds", "5 seconds"),
        ("real-time", "2 seconds", True, "2 seconds", "5 seconds"),
        ("3 seconds", "real-time", False, "3 seconds", "5 seconds"),
        ("6000 milliseconds", "1 second", False, "6000 milliseconds", "6000 milliseconds"),
        ("1 minute", "1 second", False, "1 minute", "1 minute"),
        ("", "1 hour 2 minutes", False, "1 hour 2 minutes", "1 hour 2 minutes"),
    ],
)
def test_the_triggers_of_a_view(
    own: str, job: str, is_real_time: bool, micro_batches: str, dead_letters: str
) -> None:
    view, settings = replace(VIEW, trigger=own), replace(JOB, trigger=job)
    assert settings.is_real_time(view) is is_real_time
    assert settings.micro_batch_trigger(view) == micro_batches
    assert settings.dead_letters_trigger(view) == dead_letters
    assert not replace(settings, once=True).is_real_time(view)


def test_a_trigger_that_is_neither_is_an_error() -> None:
    with pytest.raises(ValueError, match="trigger 'realtime': use"):
        replace(VIEW, trigger="realtime")


def test_options() -> None:
    given = parse(["--checkpoint-dir", "x", "--trigger", "real-time"])
    assert (given.trigger, given.real_time_batch) == ("real-time", "10 seconds")
    given = parse(["--checkpoint-dir", "x", "--real-time-batch", "30 seconds"])
    assert (given.trigger, given.real_time_batch) == ("200 milliseconds", "30 seconds")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5s", "5000 milliseconds"),
        ("250ms", "250 milliseconds"),
        ("5 seconds", "5 seconds"),
        ("1 minute 30 seconds", "1 minute 30 seconds"),
    ],
)
@pytest.mark.parametrize("option", ["--trigger", "--real-time-batch"])
def test_a_time_has_the_form_of_views_toml_or_of_spark(
    option: str, text: str, expected: str
) -> None:
    given = parse(["--checkpoint-dir", "x", option, text])
    assert (given.trigger if option == "--trigger" else given.real_time_batch) == expected


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--trigger", "5x", '"5x" is not a time, such as "5s" or "5 seconds", or "real-time"'),
        ("--trigger", "5 sec", '"5 sec" is not a time'),
        ("--trigger", "", '"" is not a time'),
        ("--real-time-batch", "real-time", '"real-time" is not a time, such as'),
        ("--real-time-batch", "ten", '"ten" is not a time, such as'),
    ],
)
def test_spark_would_refuse_another_time_at_each_start(
    option: str, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        parse(["--checkpoint-dir", "x", option, text])
    assert f"argument {option}: {message}" in capsys.readouterr().err
