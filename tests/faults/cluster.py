"""The cluster under test: a topic with its keys, backends and nginx, all real."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from backend.instance.constants import Constants
from backend.instance.settings import Settings
from local.errors import LocalError
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from model.partitioner import partition_of
from tests.faults.faults import Clock, small_disk
from tests.faults.redundancy import missing
from tests.support.backends import FAST_CONSTANTS, FAST_SETTINGS, Backend
from tests.support.deployment import Deployment, views_toml
from tests.support.nginx import Nginx
from tests.support.tcp_faults import TcpFaults
from tests.support.topics import Log, Writer, history

VIEW = "v"
KEPT, VOLATILE = 40, 10  # keys per partition
_CHECK_INTERVAL = 0.2  # s; more frequent checks would take CPU time from the cluster
START = 60.0  # s until the cluster is redundant, on a loaded machine

_SHORTENED = [name.removeprefix("QUERYABLE_").lower() for name in FAST_SETTINGS]
AS_SHIPPED = {
    **{name: str(Settings.model_fields[name].default) for name in _SHORTENED},
    **{name: str(getattr(Constants(), name)) for name in FAST_CONSTANTS},
}
"""The product's numbers that tests shorten."""


@dataclass(frozen=True)
class Setup:
    """The cluster of a scenario."""

    instances: int = 3
    partitions: int = 6
    guarded: bool = False  # clients reach all instances through TCP proxies (`Cluster.guards`)
    detoured: tuple[int, ...] = ()  # instances that reach the broker through `Cluster.detour`
    clocks: bool = False  # wall clocks can be set (`Cluster.clocks`)
    disk_mb: int = 0  # the first instance has a small disk
    filler: int = 0  # additional records of 1 kB, whose keys are not read
    transactional: bool = False
    topic: Mapping[str, str] = field(default_factory=dict)
    store: str = "key-value"
    views: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # additional ones
    settings: Mapping[str, str] = field(default_factory=dict)  # of the backends


class Keys:
    """The same number of keys for each partition."""

    def __init__(self, partitions: int) -> None:
        home = partition_of("murmur2")
        assert home is not None
        self._murmur2 = home
        self.kept: list[str] = []
        self.volatile: list[str] = []
        self.of: dict[int, list[str]] = {partition: [] for partition in range(partitions)}
        number = 0
        while any(len(keys) < KEPT + VOLATILE for keys in self.of.values()):
            key = f"key {number}"
            number += 1
            mine = self.of[self.home(key, partitions)]
            if len(mine) < KEPT + VOLATILE:
                (self.kept if len(mine) < KEPT else self.volatile).append(key)
                mine.append(key)

    def home(self, key: str, partitions: int) -> int:
        return int(self._murmur2(key.encode(), partitions))


class Cluster:
    """Starts when it is entered: then it is redundant, and nginx has the topology."""

    def __init__(
        self,
        broker: Broker,
        folder: Path,
        setup: Setup | None = None,
        detour: TcpFaults | None = None,
        **settings: str,
    ) -> None:
        """`settings` of the backends override those of tests."""
        self.broker = broker
        self.folder = folder
        self.setup = setup or Setup()
        self.detour = detour
        self.topic = f"faults-{uuid.uuid4().hex[:8]}"
        self.partitions = self.setup.partitions
        self.keys = Keys(self.partitions)
        self.seeded: list[Log] = []
        self.guards: list[TcpFaults] = []
        self.clocks: list[Clock] = []
        self._settings = {"standby_replicas": "1", **settings, **self.setup.settings}
        standbys = int(self._settings["standby_replicas"])
        self._replicas = self.setup.instances if self.setup.store == "global" else 1 + standbys
        self._stack = ExitStack()
        self.backends: Deployment
        self.nginx: Nginx

    @property
    def all(self) -> list[Backend]:
        return self.backends.all

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        servers = self.broker.bootstrap_servers
        self.create_topic()
        self.seed()
        views = {VIEW: {"topic": self.topic, "store": self.setup.store}, **self.setup.views}
        self.backends = self._stack.enter_context(
            Deployment(self.folder / "backends", servers, views_toml(**views), **self._settings)
        )
        for number in range(self.setup.instances):
            self._new(number).launch()
        self.wait_whole(START, self.all)
        self.nginx = self.backends.proxy()

    def _new(self, number: int) -> Backend:
        own: dict[str, str] = {}
        guard = None
        if self.setup.guarded:
            guard = self._stack.enter_context(TcpFaults())
            self.guards.append(guard)
            own["advertised"] = f"127.0.0.1:{guard.port}"
        if number in self.setup.detoured:
            assert self.detour is not None
            own["bootstrap_servers"] = f"127.0.0.1:{self.detour.port}"
        backend = self.backends.new(**own)
        if guard is not None:
            guard.target = backend.port
        if self.setup.clocks:
            clock = Clock(self.folder / f"clock-{backend.id}")
            self.clocks.append(clock)
            backend.settings |= clock.environment
        if self.setup.disk_mb and not number:
            self._stack.enter_context(small_disk(backend.data_dir, self.setup.disk_mb))
        return backend

    def create_topic(self) -> None:
        admin = quiet_admin(self.broker.bootstrap_servers)
        create_topics(admin, [Topic(self.topic, self.partitions, self.setup.topic)])

    def seed(self) -> None:
        """Writes a value for every kept key, and for every second volatile key."""
        writer = Writer(self.broker.bootstrap_servers)
        writer.table(self.topic, {key: {"n": 0} for key in self.keys.kept})
        writer.table(self.topic, {key: {"n": 0} for key in self.keys.volatile[::2]})
        if self.setup.filler:
            value = {"filler": "x" * 1_000}
            writer.table(self.topic, {f"filler {n}": value for n in range(self.setup.filler)})
        # read now, before the log is compacted
        self.seeded = history(self.broker.bootstrap_servers, self.topic, self.partitions)

    def missing(self, living: Iterable[Backend] | None = None) -> str:
        """Describes missing redundancy of the `living` instances (default: all that run)."""
        of = [b for b in self.all if b.is_running] if living is None else list(living)
        return missing(
            VIEW,
            self.partitions,
            self._replicas,
            {b.id: _document(b, "/processors") for b in of},
            {b.id: _document(b, "/instance") for b in of},
        )

    def wait_whole(self, timeout: float = 60.0, living: Iterable[Backend] | None = None) -> None:
        """Waits for redundancy; LocalError with what is missing."""
        reason = "not checked"
        chosen = None if living is None else list(living)

        def is_whole() -> bool:
            nonlocal reason
            for backend in chosen or ():
                backend.check()
            reason = self.missing(chosen)
            return not reason

        try:
            wait_until(is_whole, timeout, "redundancy", _CHECK_INTERVAL)
        except LocalError as error:
            raise LocalError(f"{error} {reason}.") from None


def _document(backend: Backend, path: str) -> dict[str, Any] | None:
    answer = backend.try_get(path)
    if answer is None or answer.status != 200:
        return None
    document: dict[str, Any] = answer.json()
    return document
