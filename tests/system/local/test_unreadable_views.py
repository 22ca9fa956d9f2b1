"""`queryable serve` with a wrong key format: what it says once it is ready."""

from __future__ import annotations

from pathlib import Path

from local.settings import StackSettings
from local.unreadable_views import unreadable_lines
from local.waiting import wait_until
from model.views_file import parse_views
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer


def test_all_keys_are_in_another_format(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, tmp_path: Path
) -> None:
    topic = make_topic(2)
    writer.send(topic, [(b"C%05d" % n, b'{"n":1}') for n in range(600)])
    toml = views_toml(v={"topic": topic, "key": "int64"}, good={"topic": topic})
    deployment = deploy(toml)
    deployment.start(2)
    nginx = deployment.proxy()
    settings = StackSettings(proxy_port=nginx.port, run_dir=tmp_path)
    views = parse_views(toml).views

    def lines() -> list[str]:
        return list(unreadable_lines(settings, views))

    wait_until(lambda: any("C00" in line for line in lines()), 30, "the dead letters", 0.2)
    first, expected, newest, where = lines()
    assert first == "view v has no entry: all of its 600 records have an unreadable key"
    assert expected == '  expected: key = "int64", value = "json"'
    assert newest.startswith('  the newest has the key "C00')
    assert where == f"  they are in the topic {topic}.dead-letter; `queryable check` looks at more"
