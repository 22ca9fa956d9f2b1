"""The Python of Spark's workers."""

from __future__ import annotations

import os
import sys

import pytest

from spark.processes.worker_python import use_this_python


def test_a_named_python_stays() -> None:
    environment = {"PYSPARK_PYTHON": "/opt/python"}
    use_this_python(environment, starts_java=True)
    assert environment == {"PYSPARK_PYTHON": "/opt/python"}


def test_java_that_runs_already_gets_the_interpreter_itself() -> None:
    environment: dict[str, str] = {}
    use_this_python(environment, starts_java=False)
    assert environment == {"PYSPARK_PYTHON": sys.executable}


def test_without_the_right_to_run_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    environment: dict[str, str] = {}
    use_this_python(environment, starts_java=True)
    assert environment == {"PYSPARK_PYTHON": sys.executable}
