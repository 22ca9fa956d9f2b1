"""The sizes of Spark's processes: heap, memory outside the heap, and shuffle partitions.

Sizes depend on the master. A size that the user has set is always kept. Spark keeps one part of a
view's state for each shuffle partition, and computes each part in one task, so there are as many
shuffle partitions as cores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MASTER = "spark.master"
PARTITIONS = "spark.sql.shuffle.partitions"
DRIVER_MEMORY = "spark.driver.memory"
EXECUTOR_MEMORY = "spark.executor.memory"
OVERHEAD = "spark.executor.memoryOverhead"

# Spark refuses to start with a heap below 450 MiB.
_MIN_HEAP_MIB = 512
_HEAP_MIB = 1024  # for two cores
_HEAP_PER_MORE_CORE_MIB = 512
_MAX_PARTITIONS = 200
# The code and threads of a JVM, and the Python processes that run a view's code.
_OUTSIDE_MIB = 256
# Spark's own value for containers.
_MIN_OVERHEAD_MIB = 384
_DATABASES_OF_VIEW = 2  # for each state partition: deduplication and aggregation
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
_BOUNDED_MIB = 500  # Spark's default of maxMemoryUsageMB
# The defaults of YARN and Kubernetes.
_EXECUTORS = 2
_CORES_OF_EXECUTOR = 1
_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,[^\]]*)?\])?$")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]$")
_MEMORY = re.compile(r"(\d+)\s*([kmgtp]?)b?$")
_UNITS = {"k": 1 / 1024, "m": 1, "": 1, "g": 1024, "t": 1024**2, "p": 1024**3}  # MiB


class Machine(NamedTuple):
    """The processors and the memory (bytes) of this machine that a process may use."""

    processors: int
    memory: int


class Cores(NamedTuple):
    """The number of all cores that run tasks, and the number of executors; None if the settings do
    not determine them. In ``local`` mode, tasks run in the driver, and there are no executors."""

    total: int | None
    executors: int | None = None

    @property
    def per_executor(self) -> int | None:
        if self.total is None or self.executors is None:
            return None
        return -(-self.total // max(1, self.executors))


def is_local(master: str) -> bool:
    """Whether all processes run on this machine."""
    return master.startswith("local")


def is_driver_alone(master: str) -> bool:
    """Whether the driver runs all tasks, without executors."""
    return _LOCAL.match(master) is not None


def cores(conf: Mapping[str, str], processors: int) -> Cores:
    """The cores of the master. ``processors``: the number of this machine's processors."""
    master = conf[MASTER]
    if match := _LOCAL.match(master):
        count = match["cores"] or "1"
        return Cores(processors if count == "*" else int(count))
    if match := _LOCAL_CLUSTER.match(master):
        return Cores(int(match[1]) * int(match[2]), int(match[1]))
    per_executor = _number(conf, "spark.executor.cores")
    if _has_containers(master):
        per_executor = per_executor or _CORES_OF_EXECUTOR
        if conf.get("spark.dynamicAllocation.enabled", "").lower() == "true":
            executors = _number(conf, "spark.dynamicAllocation.maxExecutors")
        else:
            executors = _number(conf, "spark.executor.instances") or _EXECUTORS
        return Cores(executors and executors * per_executor, executors)
    # A standalone cluster gives all its cores, with one executor on each worker.
    total = _number(conf, "spark.cores.max")
    return Cores(total, total // per_executor if total and per_executor else None)


def sizes(conf: Mapping[str, str], machine: Machine, views: int = 1) -> dict[str, str]:
    """Returns ``conf``, with the sizes that it does not set. ``conf`` has the master and the
    settings of RocksDB. The result has no shuffle partitions if the settings do not determine the
    number of the cluster's cores."""
    chosen = dict(conf)
    master = conf[MASTER]
    session_cores = cores(conf, machine.processors)
    if PARTITIONS not in chosen and session_cores.total is not None:
        chosen[PARTITIONS] = str(partitions(session_cores.total))
    alone = is_driver_alone(master)
    heap = _heap(session_cores.total or 1) if alone else _HEAP_MIB
    half = machine.memory // 1024**2 // 2
    chosen.setdefault(DRIVER_MEMORY, _text(max(_MIN_HEAP_MIB, min(heap, half))))
    if alone:
        return chosen
    if cluster := _LOCAL_CLUSTER.match(master):
        chosen.setdefault(EXECUTOR_MEMORY, _text(int(cluster[3])))
    else:
        chosen.setdefault(EXECUTOR_MEMORY, _text(_heap(session_cores.per_executor or 1)))
    if _has_containers(master) and "spark.executor.memoryOverheadFactor" not in chosen:
        chosen.setdefault(OVERHEAD, _text(_overhead(chosen, session_cores, views)))
    return chosen


def partitions(total_cores: int) -> int:
    """The shuffle partitions for this number of cores."""
    return max(1, min(total_cores, _MAX_PARTITIONS))


def warnings(conf: Mapping[str, str], machine: Machine, views: int) -> Iterator[str]:
    """A warning if this machine has too little memory for these sizes."""
    heap = _mib(conf[DRIVER_MEMORY])
    if heap is None:
        return  # Spark refuses it
    outside = _OUTSIDE_MIB
    if _LOCAL.match(conf[MASTER]):
        outside += _rocksdb(conf, views * (_number(conf, PARTITIONS) or 1))
    if (available := machine.memory // 1024**2) < heap + outside:
        yield (
            f"warning: Spark may need {_shown(heap + outside)} of memory (a heap of {_shown(heap)} "
            f"and up to {_shown(outside)} outside it), and this machine has {_shown(available)}: "
            f"the system may kill the job. Give it more memory, or fewer views, or a smaller "
            f"{DRIVER_MEMORY}."
        )


def described(conf: Mapping[str, str], overrides: Mapping[str, str], session_cores: Cores) -> str:
    """One line with all sizes. ``overrides``: the settings of the user. ``session_cores``: the
    cores of the running session."""

    def size(text: str, name: str) -> str:
        return f"{text} (given)" if name in overrides else text

    def memory(name: str) -> str:
        mib = _mib(conf[name])
        return size(conf[name] if mib is None else _shown(mib), name)

    parts = [size(conf[MASTER], MASTER)]
    if session_cores.executors is not None:
        parts.append(_counted(session_cores.executors, "executor"))
    if session_cores.total is not None:
        parts.append(_counted(session_cores.total, "core"))
    if _LOCAL.match(conf[MASTER]):
        parts.append(f"heap {memory(DRIVER_MEMORY)}")
    else:
        parts.append(f"heap of the driver {memory(DRIVER_MEMORY)}")
        parts.append(f"heap of an executor {memory(EXECUTOR_MEMORY)}")
    if OVERHEAD in conf:
        parts.append(f"outside it {memory(OVERHEAD)}")
    count = _counted(int(conf[PARTITIONS]), "shuffle partition")
    parts.append(f"{size(count, PARTITIONS)} for the state of new checkpoints")
    return f"Spark: {', '.join(parts)}"


def _has_containers(master: str) -> bool:
    """Whether executors run in containers that are killed if they use too much memory."""
    return master == "yarn" or master.startswith("k8s://")


def _heap(total_cores: int) -> int:
    return _HEAP_MIB + _HEAP_PER_MORE_CORE_MIB * max(0, total_cores - 2)


def _overhead(conf: Mapping[str, str], session_cores: Cores, views: int) -> int:
    """Memory of an executor outside its heap, MiB."""
    heap = _mib(conf[EXECUTOR_MEMORY]) or _HEAP_MIB
    count = session_cores.per_executor or 1
    if session_cores.executors:
        count = max(count, -(-(_number(conf, PARTITIONS) or 1) // session_cores.executors))
    return max(_MIN_OVERHEAD_MIB, heap // 10) + _rocksdb(conf, views * count)


def _rocksdb(conf: Mapping[str, str], state_partitions: int) -> int:
    """The maximum memory (MiB) that the databases of some state partitions use in a process."""
    if conf.get(f"{_ROCKSDB}.boundedMemoryUsage", "").lower() == "true":
        return _number(conf, f"{_ROCKSDB}.maxMemoryUsageMB") or _BOUNDED_MIB
    buffers = _number(conf, f"{_ROCKSDB}.writeBufferSizeMB") or 0
    count = _number(conf, f"{_ROCKSDB}.maxWriteBufferNumber") or 0
    cache = _number(conf, f"{_ROCKSDB}.blockCacheSizeMB") or 0
    return _DATABASES_OF_VIEW * state_partitions * (buffers * count + cache)


def _number(conf: Mapping[str, str], name: str) -> int | None:
    """A setting as a number; None if it is not set, not a number or not positive."""
    text = conf.get(name, "").strip()
    return int(text) or None if text.isdecimal() else None


def _mib(text: str) -> int | None:
    """A size in Spark's format; without a unit it is in MiB. None if it is not valid."""
    match = _MEMORY.match(text.strip().lower())
    return int(int(match[1]) * _UNITS[match[2]]) if match else None


def _text(mib: int) -> str:
    return f"{mib // 1024}g" if mib % 1024 == 0 else f"{mib}m"


def _shown(mib: int) -> str:
    return f"{mib} MB" if mib < 1024 else f"{mib / 1024:.1f}".removesuffix(".0") + " GB"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
