"""The sizes of Spark's processes for each kind of master."""

from __future__ import annotations

import pytest

from spark.processes.sizing import Cores, Machine, cores, described, sizes, warnings
from spark.session import settings

GIB = 1024**3
MACHINE = Machine(processors=8, memory=16 * GIB)
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
CONF = {
    f"{ROCKSDB}.writeBufferSizeMB": "16",
    f"{ROCKSDB}.maxWriteBufferNumber": "2",
    f"{ROCKSDB}.blockCacheSizeMB": "8",
}
CLUSTER = "spark://a:7077"
PARTITIONS = "spark.sql.shuffle.partitions"
DRIVER = "spark.driver.memory"
EXECUTOR = "spark.executor.memory"
OVERHEAD = "spark.executor.memoryOverhead"
CORES = "spark.executor.cores"
INSTANCES = "spark.executor.instances"


def chosen(
    master: str, given: dict[str, str] | None = None, machine: Machine = MACHINE, views: int = 1
) -> dict[str, str]:
    """The settings that are not given."""
    all_given = {**CONF, "spark.master": master, **(given or {})}
    found = sizes(all_given, machine, views)
    assert found.items() >= all_given.items()
    return {name: value for name, value in found.items() if name not in all_given}


@pytest.mark.parametrize(
    ("master", "partitions", "heap"),
    [
        ("local", 1, "1g"),
        ("local[1]", 1, "1g"),
        ("local[2]", 2, "1g"),
        ("local[2,1]", 2, "1g"),
        ("local[3]", 3, "1536m"),
        ("local[4]", 4, "2g"),
        ("local[*]", 8, "4g"),
        ("local[*,1]", 8, "4g"),
        ("local[16]", 16, "8g"),
        ("local[64]", 64, "8g"),  # half of the machine
        ("local[1000]", 200, "8g"),
    ],
)
def test_a_local_master_has_as_many_partitions_as_cores(
    master: str, partitions: int, heap: str
) -> None:
    assert chosen(master) == {PARTITIONS: str(partitions), DRIVER: heap}


@pytest.mark.parametrize(
    ("memory", "heap"), [(64, "512m"), (1024, "512m"), (1500, "750m"), (2048, "1g"), (4096, "1g")]
)
def test_a_small_machine_gets_a_smaller_heap(memory: int, heap: str) -> None:
    machine = Machine(2, memory * 1024**2)
    assert chosen("local[2]", machine=machine)[DRIVER] == heap
    assert settings({}, [], machine=machine)[DRIVER] == heap


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("local-cluster[2,1,1024]", {}, Cores(2, 2)),
        ("local-cluster[3, 2, 2048]", {}, Cores(6, 3)),
        (CLUSTER, {}, Cores(None)),
        (CLUSTER, {CORES: "2", INSTANCES: "3"}, Cores(None)),
        (CLUSTER, {CORES: "2", "spark.cores.max": "8"}, Cores(8, 4)),
        (CLUSTER, {"spark.cores.max": "8"}, Cores(8)),
        ("yarn", {}, Cores(2, 2)),
        ("yarn", {CORES: "4"}, Cores(8, 2)),
        ("yarn", {CORES: "4", INSTANCES: "5"}, Cores(20, 5)),
        ("k8s://https://a", {INSTANCES: "3"}, Cores(3, 3)),
        ("yarn", {"spark.dynamicAllocation.enabled": "true"}, Cores(None)),
        (
            "yarn",
            {
                "spark.dynamicAllocation.enabled": "TRUE",
                "spark.dynamicAllocation.maxExecutors": "6",
                CORES: "2",
            },
            Cores(12, 6),
        ),
        ("yarn", {CORES: "many", INSTANCES: "0"}, Cores(2, 2)),
    ],
)
def test_the_settings_of_a_cluster_tell_its_cores(
    master: str, given: dict[str, str], expected: Cores
) -> None:
    assert cores({"spark.master": master, **given}, processors=8) == expected
    partitions = None if expected.total is None else str(expected.total)
    assert chosen(master, given).get(PARTITIONS) == partitions


def test_an_executor_has_the_heap_of_its_cores() -> None:
    assert chosen(CLUSTER)[EXECUTOR] == "1g"
    assert chosen(CLUSTER, {CORES: "4", "spark.cores.max": "8"})[EXECUTOR] == "2g"
    assert chosen("local-cluster[2,1,768]")[EXECUTOR] == "768m"
    # The driver computes no rows.
    assert chosen(CLUSTER, {CORES: "4", "spark.cores.max": "8"})[DRIVER] == "1g"
    assert chosen(CLUSTER, machine=Machine(1, GIB))[DRIVER] == "512m"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://a:6443"])
def test_a_container_has_room_for_the_databases_of_state(master: str) -> None:
    # two databases of 40 MB for each view and state partition
    assert chosen(master)[OVERHEAD] == f"{384 + 2 * 40}m"
    assert chosen(master, views=10)[OVERHEAD] == f"{384 + 10 * 2 * 40}m"
    assert chosen(master, {CORES: "2"}, views=10)[OVERHEAD] == f"{384 + 10 * 2 * 2 * 40}m"
    assert chosen(master, {EXECUTOR: "8g"})[OVERHEAD] == f"{819 + 2 * 40}m"
    # four state partitions in each of the two executors
    assert chosen(master, {PARTITIONS: "7"})[OVERHEAD] == f"{384 + 4 * 2 * 40}m"
    bounded = {f"{ROCKSDB}.boundedMemoryUsage": "true"}
    assert chosen(master, bounded, views=10)[OVERHEAD] == f"{384 + 500}m"


def test_others_have_no_limit_of_memory_outside_the_heap() -> None:
    for master in (CLUSTER, "local-cluster[2,1,1024]", "local[2]"):
        assert OVERHEAD not in chosen(master)


@pytest.mark.parametrize(
    "name", [PARTITIONS, DRIVER, EXECUTOR, OVERHEAD, "spark.executor.memoryOverheadFactor"]
)
@pytest.mark.parametrize("master", ["local[4]", "local-cluster[2,1,1024]", CLUSTER, "yarn"])
def test_what_is_given_wins(master: str, name: str) -> None:
    found = chosen(master, {name: "3"})
    assert name not in found
    if name.endswith("Factor"):
        assert OVERHEAD not in found


def line(master: str, given: dict[str, str], found: Cores, machine: Machine = MACHINE) -> str:
    return described(settings({"spark.master": master, **given}, [], machine=machine), given, found)


def test_the_line_in_the_log_says_what_was_given() -> None:
    assert line("local[2]", {}, Cores(2)) == (
        "Spark: local[2], 2 cores, heap 1 GB, 2 shuffle partitions for the state of new checkpoints"
    )
    given = {"spark.master": "local[1]", DRIVER: "1536m", PARTITIONS: "1"}
    assert line("local[1]", given, Cores(1)) == (
        "Spark: local[1] (given), 1 core, heap 1.5 GB (given), 1 shuffle partition (given) for the "
        "state of new checkpoints"
    )
    assert line("yarn", {EXECUTOR: "2048"}, Cores(2, 2)) == (
        "Spark: yarn, 2 executors, 2 cores, heap of the driver 1 GB, heap of an executor 2 GB "
        "(given), outside it 464 MB, 2 shuffle partitions for the state of new checkpoints"
    )


def test_a_machine_that_is_too_small_is_a_warning() -> None:
    def found(conf: dict[str, str], memory: int, views: int = 1) -> list[str]:
        machine = Machine(2, memory * 1024**2)
        return list(warnings(settings(conf, [], machine=machine, views=views), machine, views))

    assert found({}, 2048) == []
    # 1,024 MB of heap, and for 10 views with 2 partitions 1,600 MB of RocksDB and 256 MB of others
    assert found({}, 2880, views=10) == []
    [warning] = found({}, 2879, views=10)
    assert "may need 2.8 GB of memory (a heap of 1 GB and up to 1.8 GB outside it)" in warning
    assert "this machine has 2.8 GB" in warning
    assert len(found({DRIVER: "8g"}, 8192)) == 1
    assert found({DRIVER: "7g"}, 8192) == []
    # The databases are in the executors.
    assert found({"spark.master": CLUSTER}, 2048, views=100) == []
    # Spark itself refuses this one.
    assert found({DRIVER: "much"}, 2048) == []
