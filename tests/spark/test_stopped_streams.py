"""Spark looks through the text of an error for the reason why a stream has ended."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_FRAME = "\tat org.apache.spark.sql.execution.streaming.Example.example(Example.scala:100)\n"


def test_a_long_error_of_a_stream_is_read_to_its_end(session: SparkSession) -> None:
    """Regression: Spark's pattern needs a stack frame for each character, so a stop of the job
    printed a StackOverflowError of 1,024 lines for each stream that was writing."""
    java: Any = session._jvm
    text = f"py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n{_FRAME * 400}"
    streams = java.org.apache.spark.sql.execution.streaming.runtime.StreamExecution
    for reason, is_interruption in (("", False), ("java.lang.InterruptedException", True)):
        error = java.py4j.Py4JException(text + reason)
        context = session._jsc.sc()
        assert streams.isInterruptionException(error, context) is is_interruption
