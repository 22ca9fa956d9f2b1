"""The whole stack as one object: broker, topics, data, Spark job, backends, proxy.

The slowest process starts first: the broker starts, topics are created and data are loaded while
Spark starts. All other processes end before the broker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, Self

from local.demo.datasets import DATASETS, demo_topics
from local.demo.load import end_offsets, load
from local.errors import LocalError
from local.kafka.broker import Broker
from local.kafka.connection import admin_of
from local.kafka.topics import create_topics
from local.progress import bar
from local.settings import REPOSITORY, StackSettings
from local.spark_views import (
    DerivedView,
    declared_views,
    derived_views,
    select,
    source_offsets,
    spark_failure,
)
from local.stack.nginx import check_configuration, lay_out, workers_beside_backends
from local.stack.preflight import check_machine, check_own_kafka
from local.stack.readiness import Readiness
from local.stack.run_folder import background_marker, end_orphans, ending_order, lock
from local.stack.services import (
    BACKEND,
    backend_environment,
    create_cluster_secret,
    proxy_environment,
    spark_command,
    tailer_command,
)
from local.stack.supervisor import Supervisor

READY_TIMEOUT = 90.0
SPARK_TIMEOUT = 300.0

Report = Callable[[str], None]
CheckKafka = Callable[[StackSettings, Mapping[str, DerivedView], Report], None]


class Stack:
    """A running stack in ``settings.run_dir``; a folder can have one stack at a time.

    Spark derives ``spark_views``, by default the views that the settings name. With ``background``
    the processes outlive this one, and ``stop_background`` ends them. ``check_kafka`` checks the
    user's own Kafka before the start. ``ready_timeout``: seconds until all backends are ready.
    """

    def __init__(
        self,
        settings: StackSettings,
        *,
        spark_views: Iterable[str] = (),
        background: bool = False,
        check_kafka: CheckKafka = check_own_kafka,
        ready_timeout: float = READY_TIMEOUT,
    ) -> None:
        self.settings = settings
        self.spark_views = select(spark_views, settings.views) or derived_views(settings)
        self._run_dir = settings.run_dir.absolute()
        self._background = background
        self._check_kafka = check_kafka
        self._ready_timeout = ready_timeout
        self._children = Supervisor(self._run_dir, die_with_parent=not background)
        self._progress_file = self._run_dir / "spark-progress.json"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, report: Callable[[str], None]) -> None:
        """Starts everything; returns when all backends and the proxy are ready.

        If it raises ``LocalError`` (a port is in use, a program is missing, a child ended), it has
        stopped all processes. Spark may still be catching up: see ``wait_for_spark``.
        """
        self._lock = lock(self._run_dir)
        try:
            end_orphans(self._run_dir, report)
            check_machine(self.settings, self.spark_views)
            if self.settings.has_demo:
                report("starting Spark and Kafka")
            else:
                self._check_kafka(self.settings, self.spark_views, report)
            if self.spark_views:
                self._start_spark()
            self._start_broker()
            if self.settings.has_demo:
                derived = declared_views(self.settings.views) | self.spark_views
                topics = demo_topics(derived.values())
                with admin_of(self.settings.kafka) as admin:
                    create_topics(admin, topics)
            report(f"starting {self._servers}")
            create_cluster_secret(self.settings)
            for number, port in enumerate(self.settings.backend_ports, start=1):
                self._start_backend(number, port)
            if not self.settings.without_nginx:
                self._start_nginx()
            if self.settings.has_demo:
                self._start_tailer()
                for dataset in DATASETS:
                    load(self.settings.kafka, dataset)
            report("waiting until the backends are ready")
            is_ready = Readiness(self.settings, report).check
            self._children.wait_until(is_ready, self._ready_timeout, self._servers)
        except BaseException:
            self.stop()
            raise

    @property
    def _servers(self) -> str:
        count = self.settings.instances
        backends = f"{count} backend{'s' if count > 1 else ''}"
        return backends if self.settings.without_nginx else f"{backends} and nginx"

    def wait_for_exit(
        self, interval: float = 0.5, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[str, str]:
        """Waits until a child ends by itself; returns name ► how it ended, and removes it.
        ``meanwhile`` is called after each interval."""
        while not (exits := self._children.exits()):
            time.sleep(interval)
            meanwhile()
        self._children.stop(exits)
        return exits

    def restart(self, name: str) -> None:
        """Starts a child that has ended, with a new log. Not for the broker. Raises
        ``LocalError``."""
        match name:
            case "nginx":
                self._start_nginx()
            case "spark":
                self._start_spark()
            case "tailer":
                self._start_tailer()
            case _:
                number = int(name.removeprefix("backend-"))
                self._start_backend(number, self.settings.backend_ports[number - 1])

    def wait_for_spark(self, views: Iterable[str], timeout: float = SPARK_TIMEOUT) -> None:
        """Returns when the views have all records that the raw topics had when it was called.
        Spark reports no progress in static topics: it has read them before its first micro-batch.

        Raises ``LocalError`` if a view fails, and ``TimedOut`` after ``timeout`` s.
        """
        ends = {
            view: {
                (topic, partition): end
                for topic in self.spark_views[view].streams
                for partition, end in end_offsets(self.settings.kafka, topic).items()
            }
            for view in views
            if view in self.spark_views
        }
        total = sum(sum(offsets.values()) for offsets in ends.values())
        with bar(f"deriving {' and '.join(ends)}", total) as update:

            def is_done() -> bool:
                progress = self._spark_progress()
                if failure := spark_failure(progress, ends):
                    raise LocalError(failure)
                done = source_offsets(progress)
                reached = sum(
                    min(done.get(view, {}).get(partition, 0), end)
                    for view, offsets in ends.items()
                    for partition, end in offsets.items()
                )
                update(reached)
                return reached == total

            self._children.wait_until(is_done, timeout, "Spark to derive the views")

    def wait_until(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Waits while the children run. Raises ``LocalError`` if one ends or after ``timeout``
        s."""
        self._children.wait_until(condition, timeout, what)

    def stop(self) -> None:
        """Ends all children, the broker last."""
        for names in ending_order(self._children.children):
            self._children.stop(names)
        self._unlock()

    def detach(self) -> None:
        """Lets a background stack continue without this process."""
        background_marker(self._run_dir).write_text("\n".join(self._children.children))
        self._children.release()
        self._unlock()

    def describe(self) -> str:
        """One line per process."""
        addresses = {
            "broker": self.settings.servers,
            "nginx": self.settings.url,
            **{
                f"backend-{number}": url
                for number, url in enumerate(self.settings.backend_urls, start=1)
            },
        }
        return "\n".join(
            f"  {name:<12} {addresses.get(name, ''):<24} pid {child.process.pid:<8} {child.log}"
            for name, child in self._children.children.items()
        )

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _start_spark(self) -> None:
        self._progress_file.unlink(missing_ok=True)
        command = spark_command(self.settings, self.spark_views.values(), self._progress_file)
        # The queries have 20 s to end.
        self._children.start("spark", command, cwd=REPOSITORY, grace=25.0)

    def _start_broker(self) -> None:
        if self.settings.bootstrap_servers:
            return
        broker = Broker(
            self.settings.state_dir / "kafka",
            port=self.settings.broker_port,
            port_setting="QUERYABLE_BROKER_PORT",
            die_with_parent=not self._background,
        )
        broker.launch()
        self._children.adopt("broker", broker.process, broker.log_path, log_start=broker.log_start)
        broker.wait_ready()

    def _start_backend(self, number: int, port: int) -> None:
        self._children.start(
            f"backend-{number}",
            BACKEND,
            env=backend_environment(self.settings, number, port),
            cwd=REPOSITORY,
            grace=35.0,  # gunicorn's graceful timeout is 30 s
        )

    def _start_nginx(self) -> None:
        command = lay_out(
            self._run_dir / "nginx", self.settings.proxy_port, workers=workers_beside_backends()
        )
        check_configuration(command)
        self._children.start("nginx", command, env=proxy_environment(self.settings))

    def _start_tailer(self) -> None:
        log = self._run_dir / "nginx" / "logs" / "access.log"
        self._children.start("tailer", tailer_command(self.settings, log), cwd=REPOSITORY)

    def _spark_progress(self) -> dict[str, Any]:
        """The progress file of the Spark job, by view."""
        try:
            content: dict[str, Any] = json.loads(self._progress_file.read_text())
        except FileNotFoundError:
            return {}
        return content
