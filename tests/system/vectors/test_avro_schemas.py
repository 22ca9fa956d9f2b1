"""The table of Avro schemas agrees with Avro's Java library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from local.kafka.java import find_java
from tests.vectors import avro_cases
from tests.vectors.avro_cases import CASES, REFUSED

HERE = Path(avro_cases.__file__).parent
VERDICTS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "avro_schemas.jsonl").read_text().splitlines()
]


def test_java_says_the_same_today() -> None:
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    cases = subprocess.run(
        [sys.executable, "-m", "tests.vectors.avro_cases"], capture_output=True, check=True
    ).stdout
    command = [find_java(), "-cp", str(jars), str(HERE / "AvroSchemaVectors.java")]
    said = subprocess.run(command, input=cases, capture_output=True, check=True).stdout
    assert [json.loads(line) for line in said.splitlines()] == VERDICTS


def test_each_case_has_a_verdict() -> None:
    assert [each["case"] for each in VERDICTS] == list(CASES)


@pytest.mark.parametrize("verdict", VERDICTS, ids=list(CASES))
def test_the_table_reads_what_java_reads(verdict: dict[str, Any]) -> None:
    """What Java refuses may be read, because other libraries write it."""
    case = CASES[verdict["case"]]
    if case.read == REFUSED:
        assert verdict["parses"] == "never"
    elif verdict["parses"] != "never":
        forms = [case.read if isinstance(case.read, str) else json.dumps(case.read)]
        if isinstance(case.spark, bytes):
            forms.append(case.spark.hex())
        # the text of a decimal or a date is none that Java prints
        is_text = verdict["logical"] not in (None, "duration", "uuid")
        assert (verdict["value"] in forms) != is_text
