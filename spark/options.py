"""The runner's command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.kafka_config import for_java
from model.problems import ConfigurationError
from model.views_file import parse_views
from spark.session import jars_in, submitted
from spark.sources import Kafka
from spark.view import View
from spark.views import VIEWS

GROUP_PREFIX = "queryable-spark-"
EXAMPLES = """\
examples:
  # all views on this machine, until Ctrl-C
  python -m spark.run --checkpoint-dir .run/checkpoints

  # one view, up to what its raw topic holds now
  python -m spark.run word-count --once --checkpoint-dir .run/checkpoints

  # brokers that ask for a password, as the [kafka] table of the backends' views.toml says
  python -m spark.run --checkpoint-dir .run/checkpoints --views-toml views.toml

  # the same, said in the Java client's own settings
  python -m spark.run --bootstrap-servers broker:9093 --checkpoint-dir .run/checkpoints \\
      --kafka-option security.protocol=SASL_SSL --kafka-option sasl.mechanism=PLAIN \\
      --kafka-option 'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule
                      required username="name" password="secret";'

  # on a cluster, with this project installed on driver and executors
  spark-submit --master spark://host:7077 --jars a.jar,b.jar spark/run.py \\
      --bootstrap-servers broker:9092 --checkpoint-dir hdfs:///checkpoints
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The command line, read once. ``topics_deadline`` is in seconds."""

    views: list[View]
    kafka: Kafka
    checkpoint_dir: str
    progress: Path | None
    once: bool
    trigger: str
    max_offsets_per_trigger: int
    topics_deadline: float
    jars: list[Path]
    conf: Mapping[str, str]
    log_level: str
    group_prefix: str = GROUP_PREFIX
    health: Path | None = None

    def checkpoint(self, view: View) -> str:
        """The folder of a view's checkpoints, a path of any file system that Hadoop knows."""
        return f"{self.checkpoint_dir.rstrip('/')}/{view.name}"


def parse(arguments: list[str] | None = None) -> Settings:
    """The settings of a command line; exits with status 2 and a message where it is wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    unknown = [name for name in given.views if name not in VIEWS]
    if unknown:
        parser.error(f"no view {', '.join(unknown)}; there are {', '.join(VIEWS)}")
    folder = _jar_folder() if given.jars is None else Path(given.jars).expanduser().absolute()
    jars = jars_in(folder)
    if given.jars is not None and not jars:
        parser.error(f"--jars: no *.jar in {folder}")
    if not jars and not submitted() and "spark.jars" not in dict(given.conf):
        parser.error(
            f"Spark's Kafka source is not in {folder}. Fetch it with `make jars`, or name another "
            "folder with --jars"
        )
    return Settings(
        views=[VIEWS[name] for name in dict.fromkeys(given.views or VIEWS)],
        kafka=Kafka(
            given.bootstrap_servers,
            {**_kafka_table(parser, given.views_toml), **dict(given.kafka_option)},
        ),
        checkpoint_dir=given.checkpoint_dir,
        progress=given.progress,
        once=given.once,
        trigger=given.trigger,
        max_offsets_per_trigger=given.max_offsets_per_trigger,
        topics_deadline=given.topics_deadline,
        jars=jars,
        conf=dict(given.conf) | ({"spark.master": given.master} if given.master else {}),
        log_level=given.log_level,
        group_prefix=given.group_prefix,
        health=given.health,
    )


def _parser() -> argparse.ArgumentParser:
    views = "".join(
        f"  {view.name:<18}{view.source} > {view.topic}: {view.description}\n"
        for view in VIEWS.values()
    )
    parser = argparse.ArgumentParser(
        prog="python -m spark.run",
        description="Runs views as streams: reads raw topics, writes view topics, and writes what\n"
        "is malformed to <raw topic>.dead-letter. A query that fails is started again. SIGTERM or\n"
        "Ctrl-C ends it with status 0; started again it goes on from its checkpoints.",
        epilog=f"views:\n{views}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("views", nargs="*", metavar="VIEW", help="default: all")
    add(
        "--bootstrap-servers",
        default=os.environ.get("QUERYABLE_BOOTSTRAP_SERVERS") or "127.0.0.1:9092",
        metavar="HOST:PORT,...",
        help="default: $QUERYABLE_BOOTSTRAP_SERVERS, else 127.0.0.1:9092",
    )
    add(
        "--checkpoint-dir",
        required=True,
        metavar="DIR",
        help="where the streams keep how far they are; a path of any file system of Hadoop's",
    )
    add(
        "--progress",
        type=Path,
        metavar="FILE",
        help="JSON, rewritten after every micro-batch: for every view its state, restarts, "
        "last_error, source_offsets (the next; all before are in the view topic), input_rows, "
        "late_rows and dead_letters (since this start)",
    )
    add(
        "--health",
        type=Path,
        metavar="FILE",
        help="JSON, rewritten every second, for `python -m spark.health FILE`",
    )
    add(
        "--group-prefix",
        default=GROUP_PREFIX,
        metavar="TEXT",
        help="with a view's name, the consumer group to which the offsets are committed that its "
        "micro-batches have read, once a second with a heartbeat: `pipeline` in views.toml "
        "(default: %(default)s)",
    )
    add("--once", action="store_true", help="stop at what the raw topics hold now")
    add(
        "--trigger",
        default="1 second",
        metavar="TIME",
        help="least time from one micro-batch to the next (default: %(default)s)",
    )
    add(
        "--max-offsets-per-trigger",
        type=_positive,
        default=1_000_000,
        metavar="N",
        help="most records of a micro-batch (default: %(default)s)",
    )
    add(
        "--topics-deadline",
        type=float,
        default=60,
        metavar="SECONDS",
        help="how long to wait for a missing topic (default: %(default)s)",
    )
    add(
        "--views-toml",
        type=Path,
        metavar="FILE",
        help="a deployment's views.toml: the connection settings of its [kafka] table are used",
    )
    add(
        "--kafka-option",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a setting of Kafka's Java client, for reading and writing; repeatable",
    )
    add(
        "--jars",
        metavar="DIR",
        help="the jars of Spark's Kafka source "
        "(default: $QUERYABLE_CACHE/jars/spark, else the same in ~/.cache/queryable-topics)",
    )
    add("--master", help="spark.master (default: spark-submit's, else local[2])")
    add(
        "--conf",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="a setting of Spark; repeatable",
    )
    add(
        "--log-level",
        default="off",
        choices=["off", "error", "warn", "info", "debug"],
        help="of Spark's own log, on stderr (default: %(default)s)",
    )
    return parser


def _kafka_table(parser: argparse.ArgumentParser, file: Path | None) -> dict[str, str]:
    """The [kafka] table of a views.toml as settings of the Java client."""
    if file is None:
        return {}
    try:
        return for_java(parse_views(file.read_text(), str(file)).kafka)
    except OSError as error:
        parser.error(f"--views-toml: {file}: {error.strerror}")
    except ConfigurationError as error:
        parser.error(f"--views-toml: {error}")


def _jar_folder() -> Path:
    cache = os.environ.get("QUERYABLE_CACHE")
    if cache:
        return Path(cache).expanduser().absolute() / "jars" / "spark"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "queryable-topics" / "jars" / "spark"


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value
