"""Findings about the views file."""

from __future__ import annotations

from pathlib import Path

from local.kafka.broker import Broker
from queryable.cli.check.deployment import check_deployment
from tests.support.plugins.fixtures import MakeTopic


def test_topics_that_the_job_of_spark_creates_are_not_missing(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    flights, planes = make_topic(), f"{make_topic()}-planes"
    file = tmp_path / "views.toml"
    file.write_text(
        f'[views.new-hosts.derive]\nfrom = "{flights}"\nfields = {{ client = "string" }}\n'
        'key = "client"\ncount = true\n\n'
        f'[views.new-hosts.derive.join.plane]\nfrom = "{planes}"\non = "client"\n'
        'fields = { model = "string" }\n\n'
        # derived from the view before
        '[views.new-rows.derive]\nfrom = "new-hosts"\nfields = { count = "int" }\n'
        'key = "count"\ncount = true\n\n'
        '[views.python]\ntopic = "new-words"\nkey = "string"\nvalue = "json"\n'
        'spark_view = "words.py"\n'
    )
    found = list(check_deployment(file, broker.bootstrap_servers, 1, 10))[2:]
    created = "does not exist yet: Spark's job creates it, if it may create topics"
    rule = "(docs/changes-to-a-deployment.md#topics-that-a-spark-job-reads)"
    assert [(each.status, each.subject, each.message) for each in found] == [
        (
            "ok",
            "view new-hosts",
            f"do not add partitions to topic {planes}: Spark's job would stop the view, which "
            f"joins it as a table {rule}",
        ),
        ("ok", "view new-hosts", f"topic new-hosts {created}"),
        (
            "wrong",
            "view new-hosts",
            f"Spark derives it from topic {planes}, which does not exist; did you mean "
            f"{planes.removesuffix('-planes')}?",
        ),
        ("ok", "view new-rows", f"topic new-rows {created}"),
        (
            "ok",
            "view python",
            "before you add partitions to a topic that words.py reads: Spark's job stops views "
            f"that cannot follow it {rule}",
        ),
        ("ok", "view python", f"topic new-words {created}"),
    ]
    assert found[2].action == "create the topic, or set from in [views.new-hosts.derive.join.plane]"
