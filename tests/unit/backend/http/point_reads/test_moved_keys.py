"""If some of the keys of coalesced reads may be in several partitions, only the reads of these keys
are sent separately."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from backend.http.router import Router
from backend.ingest.metadata.topic_metadata import TopicMetadata
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance
from tests.unit.backend.http.point_reads.instances import holding, place
from tests.unit.backend.http.point_reads.test_batched_keys import (
    answers_to,
    assert_as_alone,
    groups_of,
)

KEYS = [b"%d" % n for n in range(200)]
STORED = {key: b'{"n":%b}' % key for key in KEYS[::2]}


def add_partitions(instance: Instance, known_from: str) -> None:
    """Three partitions became six; or, if only the topic's metadata have them, they will be."""
    if known_from == "the topology":
        instance.place(*[0] * 6, partition_counts=(3, 6))
    elif known_from == "a store":
        [first, *_] = instance.context.store_partitions.all()
        first.metadata = replace(first.metadata, partitions=3)
    else:
        ends = dict.fromkeys(range(12), 0)
        added_at = time.monotonic() if known_from == "new metadata" else None
        instance.context.metadata_poller.latest["orders"] = TopicMetadata(
            "topic-1", 12, ends, ends, None, 0, added_at=added_at
        )


@pytest.mark.parametrize("known_from", ["the topology", "a store", "metadata", "new metadata"])
def test_after_partitions_were_added_only_moved_keys_are_sent_separately(
    tmp_path: Path, known_from: str
) -> None:
    with holding(tmp_path, ORDERS, STORED, 6) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        add_partitions(instance, known_from)
        answers = assert_as_alone(instance, shell, ORDERS, KEYS, 6)
        at_once = {
            key for key in KEYS if shell.fast_path.answer_now(b"/orders/%b" % key) is not None
        }
        assert {key for key, answer in answers.items() if answer is not None} == at_once
        assert {answer.status for answer in answers.values() if answer is not None} == {200, 404}
        counts = {"metadata": (6, 12), "a store": (3, 6), "the topology": (3, 6)}.get(known_from)
        if counts is None:
            assert at_once == set(KEYS)  # as of the addition
        else:
            stayed = {key for key in KEYS if len({place(key, count) for count in counts}) == 1}
            assert stayed <= at_once < set(KEYS)


def test_a_mispartitioned_record_that_the_topology_does_not_know(tmp_path: Path) -> None:
    """The found keys are answered, the missing ones are sent separately."""
    with holding(tmp_path, ORDERS, STORED) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        for store_partition in instance.context.store_partitions.all():
            store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
        answers = assert_as_alone(instance, shell, ORDERS, KEYS)
        assert {key for key, answer in answers.items() if answer is not None} == set(STORED)


def test_a_key_that_is_not_of_the_partition_is_sent_separately(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, STORED, 6) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        add_partitions(instance, "the topology")
        [first, second, *_] = groups_of(ORDERS, KEYS, 6)
        answers = answers_to(shell, [first._replace(texts=[*first.texts, *second.texts])])
        assert any(answers[text[1:]] for text in first.texts)
        assert not any(answers[text[1:]] for text in second.texts)


def test_a_key_that_is_too_long_is_sent_separately(tmp_path: Path) -> None:
    with holding(tmp_path, ORDERS, STORED, 6) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        add_partitions(instance, "new metadata")
        long = b"x" * 8193
        same = [key for key in KEYS if place(key, 6) == place(long, 6)]
        answers = assert_as_alone_but(instance, shell, [*same, long], long)
        assert None not in answers


def assert_as_alone_but(
    instance: Instance, shell: Router, keys: list[bytes], left_out: bytes
) -> list[object]:
    answers = answers_to(shell, groups_of(ORDERS, keys, 6))
    assert answers.pop(left_out) is None
    return list(answers.values())
