"""``queryable serve``: backends, nginx if the machine has it and, for derived views, Spark, for the
user's own Kafka."""

from __future__ import annotations

import difflib
import getpass
import hashlib
import math
import re
import shlex
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from local.commands import curl, report, run_until_interrupted
from local.errors import LocalError, TimedOut
from local.example_requests import example_request
from local.interrupts import interrupted_once
from local.kafka.connection import deployment_of
from local.settings import StackSettings, load_settings
from local.spark_views import DerivedView, declared_views
from local.stack.nginx import why_nginx_is_missing
from local.stack.services import backend_environment
from local.stack.stack import Stack
from local.unreadable_views import unreadable_lines
from model.http.answers import Answer
from model.machine.extras import how_to_install
from queryable import Client, QueryableError
from queryable.cli.check.env_file import format_env_file
from queryable.cli.check.target import SERVED

SPARK_PATIENCE_S = 60.0
"""Seconds to wait for Spark's views before the examples are shown without them."""

_OPTIONS = {
    "QUERYABLE_PROXY_PORT": "--port",
    "QUERYABLE_BACKEND_PORT": "--backend-port",
    "QUERYABLE_RUN_DIR": "--data-dir",
    "QUERYABLE_WITHOUT_NGINX": "--without-nginx",
}
_MAX_SHOWN = 200
"""Characters of an answer that are shown."""


def serve(views: Path, servers: str, options: dict[str, Any], topics: Collection[str]) -> None:
    """Runs until Ctrl-C or SIGTERM, and returns when all processes have ended.

    ``options``: fields of ``StackSettings``; None: from the environment, else the default.
    ``topics``: the existing topics. Raises ``LocalError``, which names the options of the command.
    """
    try:
        with interrupted_once():
            _serve(without_missing_nginx(stack_settings(views, servers, options)), topics)
    except LocalError as error:
        raise LocalError(with_option_names(str(error))) from None


def stack_settings(views: Path, servers: str, options: dict[str, Any]) -> StackSettings:
    """The settings of the stack. Each data folder has its own deployment name, because backends
    with the same name on one Kafka cluster share the partitions."""
    fields = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(
        **fields, views=views.absolute(), bootstrap_servers=servers, demo_data=False
    )
    if "application_id" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"application_id": default_application_id(settings.run_dir)})


def without_missing_nginx(settings: StackSettings) -> StackSettings:
    """The settings, without nginx if this machine has none and they do not say anything about it.
    Raises ``LocalError`` if nginx refuses its configuration."""
    if "without_nginx" in settings.model_fields_set:
        return settings
    reason = why_nginx_is_missing()
    if reason is None:
        return settings
    report(f"{reason}, so it is not used (--without-nginx): {settings.url} is a backend")
    return settings.model_copy(update={"without_nginx": True})


def default_application_id(folder: Path) -> str:
    """User, machine, and a digest of the data folder's path."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "user"
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    name = f"queryable-serve-{user}-{socket.gethostname()}"
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:80]}-{digest}"


def with_option_names(message: str) -> str:
    """The message with the options of the command instead of the variables."""
    for variable, option in _OPTIONS.items():
        message = message.replace(variable, option)
    return message


def _serve(settings: StackSettings, topics: Collection[str]) -> None:
    began = time.monotonic()
    views = deployment_of(settings.views).views
    stack = Stack(
        settings,
        spark_views=_spark_views(settings.views),
        check_kafka=lambda *_: None,  # the command has checked it
        ready_timeout=math.inf,
    )
    require_sources(stack.spark_views, topics)
    try:
        stack.start(report)
        if stack.spark_views:
            _wait_for_spark(stack)
        names = f"{len(views)} view{'s' if len(views) > 1 else ''}"
        print(
            f"\nready after {time.monotonic() - began:.0f} s: {names} of {settings.views.name} on "
            f"{settings.url}, from {settings.servers}",
            flush=True,
        )
        for line in (*without_nginx_lines(settings), *unreadable_lines(settings, views)):
            print(line)
        show_examples(settings, [view.name for view in views])
        print(f"check it: {write_settings(settings)}", flush=True)
        run_until_interrupted(stack, ViewsFileWatcher(settings.views, report).check)
    except KeyboardInterrupt:
        report("stopping everything")
    finally:
        stack.stop()


def write_settings(settings: StackSettings) -> str:
    """Writes the settings of the first backend, for `queryable check`; returns the command, which
    checks them. The file has no secrets, but the path of one."""
    path = settings.run_dir / SERVED.name
    variables = backend_environment(settings, 1, settings.backend_ports[0])
    path.write_text(format_env_file(variables))
    command = "queryable check --production"
    if path.absolute() == SERVED.absolute():
        return command
    return f"{command} --env-file {shlex.quote(str(path))}"


def without_nginx_lines(settings: StackSettings) -> Iterator[str]:
    """Sentences for people about a deployment without nginx: where to ask, and what is lost."""
    if not settings.without_nginx:
        return
    first, *others = settings.backend_urls
    if others:
        yield f"without nginx: use {first}. These backends answer the same: {', '.join(others)}"
        yield "  If the first one stops, ask another one until it has started again."
        yield "  A read of a key that another backend has is forwarded, which takes longer."
    else:
        yield f"without nginx: {first} is the only backend; while it starts again, none answers"
    yield "  Missing: reads that are answered together; nginx's access log, metrics and limits."


def _spark_views(views: Path) -> tuple[str, ...]:
    """The names of the views that Spark derives. Raises ``LocalError``."""
    try:
        return tuple(declared_views(views))
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "pandas", "pyarrow"):
            raise
        derived = [entry.name for entry in deployment_of(views).views if entry.uses_spark]
        raise LocalError(
            f"Spark derives {', '.join(derived)}, and {error.name} is not installed. "
            f"{how_to_install('server', 'spark')}"
        ) from None


def require_sources(views: Mapping[str, DerivedView], topics: Collection[str]) -> None:
    """Raises ``LocalError`` if a topic that Spark reads is missing, unless Spark derives it."""
    derived_topics = {view.topic for view in views.values()}
    for view in views.values():
        for topic in view.sources:
            if topic not in derived_topics and topic not in topics:
                close = difflib.get_close_matches(topic, topics, 1, 0.6)
                hint = f"; did you mean {close[0]}?" if close else "."
                raise LocalError(
                    f"Spark derives {view.name} from the topic {topic}, which does not exist{hint}"
                )


def _wait_for_spark(stack: Stack) -> None:
    """Waits until Spark's views have all current records, at most ``SPARK_PATIENCE_S`` s."""
    try:
        stack.wait_for_spark(stack.spark_views, SPARK_PATIENCE_S)
    except TimedOut:
        report("Spark has not derived everything yet: `queryable pipeline VIEW` shows it")


def show_examples(settings: StackSettings, views: Iterable[str]) -> None:
    """Prints a request and its answer, for the first view with an entry; and the addresses of the
    admin page and of the data."""
    print("\ntry:")
    for name in views:
        if (example := _example(settings, name)) is not None:
            target, answer = example
            body = answer.body.decode(errors="replace")
            shown = body if len(body) <= _MAX_SHOWN else f"{body[:_MAX_SHOWN]}…"
            print(f"  {curl(settings, target)}\n    {shown}")
            break
    else:
        needs_token = settings.auth == "jwt" and not settings.headers
        reason = (
            "set QUERYABLE_TOKEN for an example"
            if needs_token
            else "no view has an entry that can be read"
        )
        print(f"  {curl(settings, '/views')}\n    {reason}")
    print(f"\nadmin page: {settings.url}/admin")
    print(f"data and logs: {settings.run_dir.absolute()}", flush=True)


def _example(settings: StackSettings, view: str) -> tuple[str, Answer] | None:
    """An example request and its answer; None if the view has no entry, its topic is missing, or
    the token may not read it."""
    with closing(Client(settings.url, timeout=5)) as client:
        try:
            return example_request(settings, client, view)
        except QueryableError:
            return None


class ViewsFileWatcher:
    """Watches the views file. Reports each edit once: the running backends keep the old file."""

    def __init__(self, views: Path, report: Callable[[str], None]) -> None:
        self._views = views
        self._report = report
        self._seen = self._state()

    def check(self) -> None:
        if (state := self._state()) == self._seen:
            return
        self._seen = state
        try:
            deployment_of(self._views)
        except LocalError as error:
            self._report(f"{self._views.name} was edited and is wrong: {error}")
        else:
            self._report(f"{self._views.name} was edited: press Ctrl-C and start again to serve it")

    def _state(self) -> tuple[int, int] | None:
        try:
            status = self._views.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
