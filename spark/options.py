"""The command line of ``spark.run``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import fill

from model.formats.schema_registry import AUTH_VARIABLE
from model.kafka.config import check_java_values, for_java, is_secret
from model.kafka.config_providers import resolve, resolve_value
from model.machine.cache import cache_folder
from model.problems import ConfigurationError
from model.views import SPARK_GROUP_PREFIX, Deployment
from spark.deployment import read_deployment
from spark.discovery import declared_views, select_views
from spark.errors import JobError
from spark.formats import registry
from spark.required import check_kafka, check_spark
from spark.session import submitted
from spark.settings import DEFAULT_TRIGGER, REAL_TIME_BATCH, Settings
from spark.sources import Kafka
from spark.triggers import REAL_TIME, spark_time
from spark.views import VIEWS

_Add = Callable[..., object]
"""Adds an option to a group of them."""

EXAMPLES = """\
examples:
  # all views on this machine, until Ctrl-C
  python -m spark.run --checkpoint-dir .run/checkpoints

  # one view, up to the current end of its raw topic
  python -m spark.run word-count --once --checkpoint-dir .run/checkpoints

  # the views in views.toml, with the connection settings of its [kafka] table
  python -m spark.run --checkpoint-dir .run/checkpoints --views-toml views.toml

  # views of your own: a module, and the files of a folder
  python -m spark.run --view shop.orders:VIEW my_views/ \\
      --checkpoint-dir .run/checkpoints

  # another setting of the Java client; secrets belong in [kafka] of views.toml
  python -m spark.run --bootstrap-servers broker:9093 --views-toml views.toml \\
      --kafka-option client.dns.lookup=use_all_dns_ips \\
      --checkpoint-dir .run/checkpoints

  # on a cluster, with this project installed on driver and executors
  spark-submit --master spark://host:7077 --jars a.jar,b.jar spark/run.py \\
      --bootstrap-servers broker:9092 --checkpoint-dir hdfs:///checkpoints
"""


def parse(arguments: list[str] | None = None) -> Settings:
    """The settings of a command line; exits with status 2 and a message if it is invalid."""
    parser = _parser()
    options = parser.parse_args(arguments)
    deployment = _deployment(parser, options.views_toml)
    try:
        named = [*options.views, *options.view]
        folder = Path() if options.views_toml is None else options.views_toml.parent
        if named:
            chosen = select_views(named, VIEWS, deployment, folder)
        else:
            chosen = VIEWS if deployment is None else declared_views(deployment, folder)
    except JobError as error:
        parser.error(str(error))
    if not chosen:
        parser.error(
            f'{options.views_toml} has no entry with a view: add spark_view = "my_view.py" to an '
            "entry, or name views"
        )
    if options.jars is None:
        folder = cache_folder() / "jars" / "spark"
    else:
        folder = Path(options.jars).expanduser().absolute()
    jars = sorted(folder.glob("*.jar"))
    if options.jars is not None and not jars:
        parser.error(f"--jars: no *.jar in {folder}")
    if not jars and not submitted() and "spark.jars" not in dict(options.conf):
        parser.error(
            f"Spark's Kafka source is not in {folder}. Run `make jars`, or name another folder "
            "with --jars"
        )
    try:
        table = {} if deployment is None else _java_client(deployment)
        schemas = {} if deployment is None else _schema_registry(deployment)
    except ConfigurationError as error:
        parser.error(f"--views-toml: {options.views_toml}: {error}")
    conf = dict(options.conf) | ({"spark.master": options.master} if options.master else {})
    for option, check, values in (
        ("--conf", check_spark, conf),
        ("--kafka-option", check_kafka, dict(options.kafka_option)),
    ):
        try:
            check(values)
        except JobError as error:
            parser.error(f"{option}: {error}")
    return Settings(
        views=list(chosen.values()),
        kafka=Kafka(options.bootstrap_servers, {**table, **dict(options.kafka_option)}),
        checkpoint_dir=options.checkpoint_dir,
        progress=options.progress,
        health=options.health,
        once=options.once,
        trigger=options.trigger,
        real_time_batch=options.real_time_batch,
        max_offsets_per_trigger=options.max_offsets_per_trigger,
        topics_deadline=options.topics_deadline,
        create_topics=options.create_topics,
        jars=jars,
        conf=schemas | conf,
        log_level=options.log_level,
        group_prefix=options.group_prefix,
    )


def _parser() -> argparse.ArgumentParser:
    views = "".join(
        f"  {view.name}: {', '.join(view.source_topics)} > {view.topic}\n"
        f"{fill(view.description, 78, initial_indent=' ' * 6, subsequent_indent=' ' * 6)}\n"
        for view in VIEWS.values()
    )
    parser = argparse.ArgumentParser(
        prog="python -m spark.run",
        description="Runs views as streams: reads raw topics and writes view topics. Malformed\n"
        "records go to <raw topic>.dead-letter. A query that fails is restarted. SIGTERM\n"
        "and Ctrl-C end the job with status 0; after a restart it continues from its\n"
        "checkpoints.",
        epilog=f"views:\n{views}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_views(parser.add_argument_group("selection of views").add_argument)
    _add_kafka(parser.add_argument_group("Kafka").add_argument)
    _add_batches(parser.add_argument_group("micro-batches").add_argument)
    _add_files(parser.add_argument_group("checkpoints and state").add_argument)
    _add_spark(parser.add_argument_group("Spark").add_argument)
    return parser


def _add_views(add: _Add) -> None:
    add(
        "views",
        nargs="*",
        metavar="VIEW",
        help="the name of an entry in --views-toml or of a view below, a Python file or folder "
        "(my_view.py, my_views/), or module:VIEW. Views start in this order. Default: the entries "
        "of --views-toml with a spark_view, in its order; without --views-toml, all views below",
    )
    add(
        "--view",
        action="append",
        default=[],
        metavar="MODULE:VIEW",
        help="one more view, named as VIEW above; can be repeated",
    )
    add(
        "--views-toml",
        type=Path,
        metavar="FILE",
        help="a deployment's views.toml: its entries select the views, and its [kafka] table has "
        "the connection settings",
    )


def _add_kafka(add: _Add) -> None:
    add(
        "--bootstrap-servers",
        default=os.environ.get("QUERYABLE_BOOTSTRAP_SERVERS") or "127.0.0.1:9092",
        metavar="HOST:PORT,...",
        help="default: $QUERYABLE_BOOTSTRAP_SERVERS, else 127.0.0.1:9092",
    )
    add(
        "--kafka-option",
        action="append",
        default=[],
        type=_kafka_option,
        metavar="KEY=VALUE",
        help="a setting of Kafka's Java client, for reading and writing; can be repeated. Secrets "
        "are refused, because other users see the command line: set them in --views-toml",
    )
    add(
        "--group-prefix",
        default=SPARK_GROUP_PREFIX,
        metavar="TEXT",
        help="the job commits the offsets of each view, with a heartbeat, to the consumer group "
        "prefix + view name, once a second: `pipeline` in views.toml (default: %(default)s)",
    )
    add(
        "--topics-deadline",
        type=float,
        default=60,
        metavar="SECONDS",
        help="how long to wait for a missing topic (default: %(default)s)",
    )
    add(
        "--no-create-topics",
        dest="create_topics",
        action="store_false",
        help="create no topics: wait for missing view topics and dead-letter topics, too",
    )


def _add_batches(add: _Add) -> None:
    add("--once", action="store_true", help="stop at the current ends of the raw topics")
    add(
        "--trigger",
        type=_trigger,
        default=DEFAULT_TRIGGER,
        metavar="TIME",
        help="minimum time between two micro-batches of views without a trigger of their own, such "
        "as 5s, or real-time (default: %(default)s)",
    )
    add(
        "--real-time-batch",
        type=_time,
        default=REAL_TIME_BATCH,
        metavar="TIME",
        help="time between two commits of a real-time view, such as 30s (default: %(default)s)",
    )
    add(
        "--max-offsets-per-trigger",
        type=_positive,
        default=1_000_000,
        metavar="N",
        help="maximum number of records in a micro-batch (default: %(default)s)",
    )


def _add_files(add: _Add) -> None:
    add(
        "--checkpoint-dir",
        required=True,
        metavar="DIR",
        help="folder of the checkpoints; a path of any file system that Hadoop supports",
    )
    add(
        "--progress",
        type=Path,
        metavar="FILE",
        help="a JSON file that is rewritten after every micro-batch. For each view: state, "
        "restarts, last_error, source_offsets (records before them are in the view topic), and "
        "since this start input_rows, late_rows, dropped_rows and dead_letters",
    )
    add(
        "--health",
        type=Path,
        metavar="FILE",
        help="a JSON file that is rewritten every second, for `python -m spark.health FILE`",
    )


def _add_spark(add: _Add) -> None:
    add("--master", help="spark.master (default: spark-submit's, else local[2])")
    add(
        "--conf",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a setting of Spark; can be repeated",
    )
    add(
        "--jars",
        metavar="DIR",
        help="the jars of Spark's Kafka source "
        "(default: $QUERYABLE_CACHE/jars/spark, else the same in ~/.cache/queryable-topics)",
    )
    add(
        "--log-level",
        default="off",
        choices=["off", "error", "warn", "info", "debug"],
        help="level of Spark's own log, on stderr (default: %(default)s)",
    )


def _deployment(parser: argparse.ArgumentParser, file: Path | None) -> Deployment | None:
    """The parsed views.toml; None if ``file`` is None."""
    try:
        return None if file is None else read_deployment(file)
    except JobError as error:
        parser.error(f"--views-toml: {error}")


def _java_client(deployment: Deployment) -> dict[str, str]:
    """Settings with unresolved references, which the Java clients of driver and executors resolve.
    Raises ConfigurationError if one is missing here."""
    check_java_values(deployment.kafka, resolve(deployment.kafka, open, os.environ))
    return for_java(deployment.kafka)


def _schema_registry(deployment: Deployment) -> dict[str, str]:
    """The registry of [schemas] as settings of the session, with unresolved references. Raises
    ConfigurationError if one is missing."""
    if deployment.registry is None:
        return {}
    auth = os.environ.get(AUTH_VARIABLE, "")
    resolve_value(AUTH_VARIABLE, auth, open, os.environ)
    missing_after = os.environ.get(registry.MISSING_AFTER_VARIABLE, registry.DEFAULT_MISSING_AFTER)
    try:
        float(missing_after)
    except ValueError:
        raise ConfigurationError(
            f"{registry.MISSING_AFTER_VARIABLE}: {missing_after} is not a number of seconds"
        ) from None
    return {
        registry.URL: deployment.registry,
        registry.AUTH: auth,
        registry.MISSING_AFTER: missing_after,
    }


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _trigger(text: str) -> str:
    return text if text == REAL_TIME else _time(text, f', or "{REAL_TIME}"')


def _time(text: str, alternatives: str = "") -> str:
    """`alternatives`: the other allowed values, for the error."""
    try:
        return spark_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}{alternatives}") from None


def _kafka_option(text: str) -> tuple[str, str]:
    name, value = _pair(text)
    if is_secret(name):
        raise argparse.ArgumentTypeError(
            f"{name} would be visible to other users on the command line; set it in [kafka] of "
            "--views-toml"
        )
    return name, value


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value
