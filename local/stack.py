"""The whole stack as one object: broker, topics, data, Spark job, backends, proxy.

What takes longest starts first: while Spark starts, the broker does, topics are created and data
loaded. The order of the ending is the reverse: the broker goes last.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, Self

from confluent_kafka import KafkaException

from local import http, nginx, ports, supervisor
from local.broker import Broker
from local.connection import admin_of, deployment_of
from local.data import DATASETS, DEMO_TOPICS
from local.errors import LocalError
from local.jars import kafka_jars, spark_jars
from local.java import find_java
from local.load import end_offsets, load
from local.progress import bar
from local.run_folder import background_marker, end_leftovers, ending_order, lock
from local.settings import REPOSITORY, StackSettings
from local.topics import create_topics

FIRST_VIEWS = {"latest-departure": "flights", "word-count": "texts"}
"""View: the raw topic that Spark derives it from. These are derived first."""

MORE_VIEWS = {"airports": "flights", "departures": "flights"}
LIVE_VIEWS = {
    "requests-per-host": "weblog",
    "requests-per-minute": "weblog",
    "bytes-per-host": "weblog",
    "visits": "weblog",
}
SPARK_VIEWS = FIRST_VIEWS | MORE_VIEWS | LIVE_VIEWS


def chosen_views(settings: StackSettings) -> tuple[str, ...]:
    """The views that Spark shall derive; ``LocalError`` names one that there is not."""
    if not settings.spark_views:
        return tuple(SPARK_VIEWS) if settings.has_demo else ()
    chosen = tuple(name.strip() for name in settings.spark_views.split(","))
    for name in chosen:
        if name not in SPARK_VIEWS:
            raise LocalError(
                f"QUERYABLE_SPARK_VIEWS: Spark derives no view {name!r}; there are "
                f"{', '.join(SPARK_VIEWS)}."
            )
    return chosen


READY_TIMEOUT = 90.0
SPARK_TIMEOUT = 300.0
SPARK_RESTARTS = 3
"""A failed view that was started again so often is an error for those who wait for it."""


class Stack:
    """A running stack in ``settings.run_dir``; only one can run in a folder at a time.

    Spark derives ``spark_views``, or what the settings say. With ``background`` its processes
    outlive this one, and ``stop_background`` ends them.
    """

    def __init__(
        self,
        settings: StackSettings,
        *,
        spark_views: Iterable[str] = (),
        background: bool = False,
    ) -> None:
        self.settings = settings
        self.spark_views = tuple(spark_views) or chosen_views(settings)
        self._run_dir = settings.run_dir.absolute()
        self._background = background
        self._children = supervisor.Supervisor(self._run_dir, die_with_parent=not background)
        self._progress_file = self._run_dir / "spark-progress.json"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, say: Callable[[str], None]) -> None:
        """Starts everything; returns when every backend and the proxy are ready.

        Raises ``LocalError`` (port taken, something missing, a child died) and leaves nothing
        running then. Spark may still be at work: ``wait_for_spark``.
        """
        self._lock = lock(self._run_dir)
        try:
            end_leftovers(self._run_dir, say)
            self._check_machine()
            if self.settings.has_demo:
                say("starting Spark and Kafka")
            else:
                self._say_what_is_left_alone(say)
            if self.spark_views:
                self._start_spark()
            self._start_broker()
            if self.settings.has_demo:
                create_topics(admin_of(self.settings.kafka), DEMO_TOPICS)
            say(f"starting {self.settings.instances} backends and nginx")
            self._start_backends()
            self._start_nginx()
            if self.settings.has_demo:
                self._start_tailer()
                for dataset in DATASETS:
                    load(self.settings.kafka, dataset)
            say("waiting until the backends are ready")
            self._children.wait_until(self._is_ready, READY_TIMEOUT, "backends and nginx")
        except BaseException:
            self.stop()
            raise

    def wait_for_a_death(self, interval: float = 0.5) -> dict[str, str]:
        """Waits until a child ends by itself: its name, and how it ended. It is forgotten then."""
        while not (obituaries := self._children.obituaries()):
            time.sleep(interval)
        self._children.stop(obituaries)
        return obituaries

    def wait_for_spark(self, views: Mapping[str, str]) -> None:
        """Returns when the views hold everything that the raw topics held when this was called."""
        ends = {
            view: end_offsets(self.settings.kafka, topic)
            for view, topic in views.items()
            if view in self.spark_views
        }
        total = sum(sum(offsets.values()) for offsets in ends.values())
        with bar(f"deriving {' and '.join(views)}", total) as update:

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

            self._children.wait_until(is_done, SPARK_TIMEOUT, "Spark to derive the views")

    def wait_until(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Waits while the children live; ``LocalError`` when one dies or time is up."""
        self._children.wait_until(condition, timeout, what)

    def stop(self) -> None:
        """Ends every child, the broker last."""
        for names in ending_order(self._children.children):
            self._children.stop(names)
        self._unlock()

    def detach(self) -> None:
        """Leaves a background stack to itself."""
        background_marker(self._run_dir).touch()
        self._children.release()
        self._unlock()

    def describe(self) -> str:
        """What is running: a line a process."""
        addresses = {
            "broker": self.settings.servers,
            "nginx": self.settings.proxy_url,
            **{
                f"backend-{number}": f"http://127.0.0.1:{port}"
                for number, port in enumerate(self.settings.backend_ports, start=1)
            },
        }
        return "\n".join(
            f"  {name:<12} {addresses.get(name, ''):<24} pid {child.process.pid:<8} {child.log}"
            for name, child in self._children.children.items()
        )

    def _say_what_is_left_alone(self, say: Callable[[str], None]) -> None:
        """Of somebody's own Kafka: nothing is created there."""
        settings = self.settings
        say(
            f"serving the views of {settings.views} from {settings.bootstrap_servers}: no topic "
            "is created there (except <topic>.dead-letter, for records that a view cannot read), "
            "and no record loaded. QUERYABLE_DEMO_DATA=yes creates the demo's topics there and "
            "loads 336,776 flights."
        )
        there = admin_of(settings.kafka).list_topics(timeout=10).topics
        views = deployment_of(settings.views).views
        if missing := sorted({view.topic for view in views} - there.keys()):
            say(
                f"not there yet: topic {', '.join(missing)}. Their views answer 503 "
                "topic-missing until you create them. QUERYABLE_VIEWS names another file of views."
            )
        # a view's topic has its name
        needed = {SPARK_VIEWS[view] for view in self.spark_views} | set(self.spark_views)
        if lacking := sorted(needed - there.keys()):
            raise LocalError(
                f"QUERYABLE_SPARK_VIEWS: topic {', '.join(lacking)} is not there, which Spark "
                "reads or writes for these views. Create it, or leave QUERYABLE_SPARK_VIEWS out."
            )

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_machine(self) -> None:
        """What can be said before anything is started."""
        settings = self.settings
        if self.spark_views or not settings.bootstrap_servers:
            find_java()
        nginx.find_nginx()
        ports.require_free(settings.proxy_port, "nginx", "QUERYABLE_PROXY_PORT")
        for port in settings.backend_ports:
            ports.require_free(port, "a backend", "QUERYABLE_BACKEND_PORT")
        if settings.bootstrap_servers:
            try:
                admin_of(settings.kafka).list_topics(timeout=10)
            except KafkaException as error:
                raise LocalError(
                    f"no Kafka broker answers on {settings.bootstrap_servers} "
                    f"({error.args[0].str()}). Correct QUERYABLE_BOOTSTRAP_SERVERS, or leave it "
                    "out for an embedded broker."
                ) from error
        else:
            ports.require_free(
                settings.broker_port,
                "the Kafka broker",
                "QUERYABLE_BROKER_PORT (or name a Kafka of your own: QUERYABLE_BOOTSTRAP_SERVERS)",
            )
            kafka_jars()
        if self.spark_views:
            spark_jars()

    def _start_spark(self) -> None:
        self._progress_file.unlink(missing_ok=True)
        job = [sys.executable, "-m", "spark.run", *self.spark_views]
        self._children.start(
            "spark",
            [
                *job,
                *("--bootstrap-servers", self.settings.servers),
                *("--checkpoint-dir", str(self.settings.state_dir / "checkpoints")),
                *("--progress", str(self._progress_file)),
                *("--jars", str(spark_jars()[0].parent)),
                *("--topics-deadline", "120"),
                *("--views-toml", str(self.settings.views.absolute())),
            ],
            cwd=REPOSITORY,
            grace=25.0,  # Spark itself gives its queries 20 s
        )

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

    def _start_backends(self) -> None:
        for number, port in enumerate(self.settings.backend_ports, start=1):
            self._children.start(
                f"backend-{number}",
                [sys.executable, "-m", "gunicorn", "-c", "python:backend.gunicorn_conf"],
                env={
                    "QUERYABLE_BOOTSTRAP_SERVERS": self.settings.servers,
                    "QUERYABLE_APPLICATION_ID": self.settings.application_id,
                    "QUERYABLE_INSTANCE_ID": f"b{number}",
                    "QUERYABLE_HOST": ports.LOOPBACK,
                    "QUERYABLE_PORT": str(port),
                    "QUERYABLE_DATA_DIR": str(self.settings.state_dir / "backends" / f"b{number}"),
                    "QUERYABLE_VIEWS": str(self.settings.views.absolute()),
                },
                cwd=REPOSITORY,
                grace=35.0,  # gunicorn's own graceful time-out is 30 s
            )

    def _start_nginx(self) -> None:
        command = nginx.lay_out(self._run_dir / "nginx", self.settings.proxy_port)
        backends = [f"{ports.LOOPBACK}:{port}" for port in self.settings.backend_ports]
        self._children.start("nginx", command, env={"QUERYABLE_BACKENDS": ",".join(backends)})

    def _start_tailer(self) -> None:
        self._children.start(
            "tailer",
            [
                *(sys.executable, "-m", "local.tailer"),
                *("--log", str(self._run_dir / "nginx" / "logs" / "access.log")),
                *("--position", str(self.settings.state_dir / "weblog-position.json")),
                *("--bootstrap-servers", self.settings.servers),
                *self._views_toml(),
            ],
            cwd=REPOSITORY,
        )

    def _views_toml(self) -> tuple[str, ...]:
        """Where it says how somebody's own Kafka is reached."""
        own = self.settings.bootstrap_servers
        return ("--views-toml", str(self.settings.views.absolute())) if own else ()

    def _is_ready(self) -> bool:
        urls = [f"http://127.0.0.1:{port}/health/ready" for port in self.settings.backend_ports]
        urls.append(f"{self.settings.proxy_url}/proxy/health")
        return all(http.get(url, timeout=2.0).status == 200 for url in urls)

    def _spark_progress(self) -> dict[str, Any]:
        """The progress file of the Spark job: view ► what it says of it."""
        try:
            content: dict[str, Any] = json.loads(self._progress_file.read_text())
        except FileNotFoundError:
            return {}
        return content


def source_offsets(progress: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """View: how far it is derived, as the next offset by partition of its raw topic."""
    offsets = {
        view: progress[view]["source_offsets"].get(topic, {})
        for view, topic in SPARK_VIEWS.items()
        if view in progress
    }
    return {view: {int(p): int(o) for p, o in each.items()} for view, each in offsets.items()}


def spark_failure(progress: Mapping[str, Any], views: Iterable[str]) -> str | None:
    """What to say if one of these views fails again and again; the job itself goes on trying."""
    for view in views:
        said = progress.get(view, {})
        if said.get("state") == "failed" and said["restarts"] >= SPARK_RESTARTS:
            return f"Spark cannot derive {view}: {said['last_error']}"
    return None
