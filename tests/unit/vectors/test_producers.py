"""The partitioners put keys where real producers have put them, and `init` finds them."""

from __future__ import annotations

import pytest

from model.partitioner import PARTITIONERS, partition_of, puts_anywhere
from model.partitioner_numpy import partitions_of_batch
from queryable.cli.inspection.inference import Confidence
from queryable.cli.inspection.partitioners import infer_partitioner
from tests.vectors.producers.keys import KEYS, PARTITIONS
from tests.vectors.producers.placements import HERE, placements
from tests.vectors.producers.programs import PROGRAMS

HASHED = [name for name, program in PROGRAMS.items() if program.partitioner in PARTITIONERS]
UNKNOWN = [name for name in PROGRAMS if name not in HASHED]


def test_each_program_has_its_file() -> None:
    assert {path.stem for path in HERE.glob("*.jsonl")} == PROGRAMS.keys()
    raw = dict.fromkeys(key.raw for keys in KEYS.values() for key in keys)
    for name, program in PROGRAMS.items():
        made = placements(name)
        assert (made.producer, made.setting) == (program.producer, program.setting)
        assert made.partitioner == program.partitioner
        assert made.version
        assert tuple(made.partitions) == PARTITIONS
        assert made.keys == list(raw)


def test_the_defaults_have_all_partitioners() -> None:
    defaults = {p.partitioner for p in PROGRAMS.values() if p.setting == "default"}
    assert defaults == {*PARTITIONERS, "none"}


@pytest.mark.parametrize("count", PARTITIONS)
@pytest.mark.parametrize("name", HASHED)
def test_each_key_is_where_the_producer_has_put_it(name: str, count: int) -> None:
    made = placements(name)
    partition = partition_of(made.partitioner)
    found = dict(zip(made.keys, made.partitions[count], strict=True))
    if puts_anywhere(made.partitioner, b""):
        del found[b""]
    assert {key: partition(key, count) for key in found} == found
    batch = partitions_of_batch(made.partitioner, list(found), count)
    assert batch.tolist() == list(found.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_init_finds_the_partitioner(name: str) -> None:
    made = placements(name)
    for count in (6, 7):
        inferred = infer_partitioner(
            list(zip(made.partitions[count], made.keys, strict=True)), count
        )
        assert inferred.value == made.partitioner
        assert (inferred.confidence is Confidence.CERTAIN) == (name in HASHED)


@pytest.mark.parametrize("name", UNKNOWN)
def test_no_partitioner_fits_what_is_declared_as_none(name: str) -> None:
    made = placements(name)
    for partitioner in PARTITIONERS:
        partition = partition_of(partitioner)
        assert [partition(key, 7) for key in made.keys] != made.partitions[7]
