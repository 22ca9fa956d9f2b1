"""Tests of the partitioners against vectors of Kafka's clients (tests/vectors)."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.partitioner import PARTITIONERS, murmur2, partition_of
from model.partitioner_numpy import murmur2_batch, partitions_of_batch
from tests.support.examples import examples
from tests.vectors.partitions import vectors


@pytest.mark.parametrize("name", PARTITIONERS)
def test_one_key(name: str) -> None:
    counts, keys, expected = vectors(name)
    assert len(keys) >= 2000
    of = partition_of(name)
    wrong = [
        (key[:20], count)
        for key, partitions in zip(keys, expected, strict=True)
        for count, partition in zip(counts, partitions, strict=True)
        # the last count shows the complete hash, which is enough for long keys
        if (len(key) < 200 or count == counts[-1]) and of(key, count) != partition
    ]
    assert not wrong


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("longest", [0, 9, 80, 128])
def test_a_batch(name: str, longest: int) -> None:
    counts, keys, expected = vectors(name)
    chosen = [i for i, key in enumerate(keys) if len(key) <= longest]
    batch = [keys[i] for i in chosen]
    for column, count in enumerate(counts):
        found = partitions_of_batch(name, batch, count)
        assert found.tolist() == [expected[i][column] for i in chosen]


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_batch_with_long_keys(name: str) -> None:
    """Keys of more than 128 bytes are not hashed in the matrix."""
    counts, keys, expected = vectors(name)
    chosen = [i for i, key in enumerate(keys) if len(key) > 128 or i % 100 == 0]
    assert max(len(keys[i]) for i in chosen) >= 65536
    found = partitions_of_batch(name, [keys[i] for i in chosen], counts[-1])
    assert found.tolist() == [expected[i][-1] for i in chosen]


KEYS = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.binary(min_size=120, max_size=140),
        st.sampled_from([b"", b"\0", b"\0" * 4, b"\0" * 5, b"\xff" * 127, b"\xff" * 128]),
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", PARTITIONERS)
@settings(max_examples=examples(60))
@given(KEYS, st.sampled_from([1, 2, 3, 9, 50, 2**31 - 1]))
@example([], 3)
@example([b""], 3)
@example([b"x" * 129, b""], 3)
def test_a_batch_gives_the_same_partitions_as_single_keys(
    name: str, keys: list[bytes], partitions: int
) -> None:
    of = partition_of(name)
    found = partitions_of_batch(name, keys, partitions)
    assert found.shape == (len(keys),)
    assert found.tolist() == [of(key, partitions) for key in keys]


@settings(max_examples=examples(60))
@given(KEYS)
def test_murmur2_hashes_of_a_batch(keys: list[bytes]) -> None:
    assert murmur2_batch(keys).tolist() == [murmur2(key) for key in keys]
