"""The trigger of a view: its own, else the job's. Needs no session."""

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
    ("own", "job", "is_real_time", "micro_batches"),
    [
        ("", "1 second", False, "1 second"),
        ("", "real-time", True, "1 second"),
        ("real-time", "2 seconds", True, "2 seconds"),
        ("3 seconds", "real-time", False, "3 seconds"),
    ],
)
def test_the_trigger_of_a_view(own: str, job: str, is_real_time: bool, micro_batches: str) -> None:
    view, settings = replace(VIEW, trigger=own), replace(JOB, trigger=job)
    assert settings.is_real_time(view) is is_real_time
    assert settings.micro_batch_trigger(view) == micro_batches
    assert not replace(settings, once=True).is_real_time(view)


def test_a_trigger_that_is_neither_is_an_error() -> None:
    with pytest.raises(ValueError, match="trigger 'realtime': use"):
        replace(VIEW, trigger="realtime")


def test_options() -> None:
    given = parse(["--checkpoint-dir", "x", "--trigger", "real-time"])
    assert (given.trigger, given.real_time_batch) == ("real-time", "10 seconds")
    given = parse(["--checkpoint-dir", "x", "--real-time-batch", "30 seconds"])
    assert (given.trigger, given.real_time_batch) == ("1 second", "30 seconds")
