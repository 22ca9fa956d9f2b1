"""The committed vectors are what Kafka's clients say today."""

import json
from pathlib import Path

import pytest

from model.partitioner import PARTITIONERS
from tests.vectors import librdkafka_vectors

HERE = Path(librdkafka_vectors.__file__).parent


def committed(name: str) -> list[str]:
    return (HERE / f"{name}.jsonl").read_text().splitlines()


@pytest.mark.parametrize("name", librdkafka_vectors.FUNCTIONS)
def test_librdkafka_says_the_same_today(name: str) -> None:
    assert librdkafka_vectors.lines(name)[1:] == committed(name)[1:]


@pytest.mark.parametrize("name", PARTITIONERS)
def test_the_keys_are_those_that_are_promised(name: str) -> None:
    header, *vectors = map(json.loads, committed(name))
    keys = [librdkafka_vectors.key_bytes(written) for written, _ in vectors]
    assert len(keys) >= 2000
    assert len(set(keys)) == len(keys)
    assert b"" in keys
    assert {bytes([value]) for value in range(256)} <= set(keys)
    assert set(range(81)) | {65536} <= {len(key) for key in keys}
    assert header["partitions"][:4] == [1, 3, 9, 50]
    assert all(
        0 <= partition < count
        for _, partitions in vectors
        for partition, count in zip(partitions, header["partitions"], strict=True)
    )
