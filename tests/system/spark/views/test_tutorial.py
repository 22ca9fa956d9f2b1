"""The tutorial in docs/spark.md: its two files and its commands, as a newcomer runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from local.kafka.broker import Broker, quiet_admin
from local.ports import free_ports
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.docs_examples import examples_run_by
from tests.support.plugins.fixtures import MakeTopic

PAGE = REPOSITORY / "docs" / "spark.md"
TEXT = PAGE.read_text()


def blocks(kind: str, begin: str, end: str) -> list[str]:
    """The blocks of a language between two headings."""
    [part] = re.findall(rf"^{begin}$(.*?)^{end}$", TEXT, re.S | re.M)
    return re.findall(rf"```{kind}\n(.*?)```", part, re.S)


def test_two_files_make_a_view(broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> None:
    section = ("## Add a view", "### What a view consists of")
    [module], [toml], [up] = (blocks(kind, *section) for kind in ("py", "toml", "sh"))
    *appends, read = examples_run_by(Path(__file__), PAGE)
    # the broker is shared by tests, so the topics have other names
    source, topic = make_topic(3), f"longest-{os.getpid()}"
    for name, text in (("longest_line.py", module), ("my-views.toml", toml)):
        text = text.replace('"texts"', f'"{source}"')
        text = text.replace('topic = "longest-line"', f'topic = "{topic}"')
        (tmp_path / name).write_text(text)
    assert up.strip() == "QUERYABLE_VIEWS=my-views.toml make up"
    proxy, backend = free_ports(2)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "QUERYABLE_VIEWS"},
        "QUERYABLE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "QUERYABLE_APPLICATION_ID": topic,
        "QUERYABLE_PROXY_PORT": str(proxy),
        "QUERYABLE_BACKEND_PORT": str(backend),
        "QUERYABLE_INSTANCES": "1",
        "QUERYABLE_RUN_DIR": str(tmp_path / "run"),
        "PYTHONPATH": str(REPOSITORY),
    }

    def run(command: str) -> str:
        command = command.replace("make ", f"{sys.executable} -m local ")
        command = command.replace("127.0.0.1:8080", f"127.0.0.1:{proxy}")
        command = command.replace("/topics/texts/", f"/topics/{source}/")
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr[-3000:]}"
        return done.stdout

    try:
        run(up)
        for each in appends:
            assert json.loads(run(each.command)).keys() == json.loads(each.shown).keys()
        wait_until(lambda: run(read.command).strip() == read.shown, 90, "the answer", 0.5)
    finally:
        run("make down")
    shown = quiet_admin(broker.bootstrap_servers).list_topics(topic, timeout=10).topics[topic]
    assert len(shown.partitions) == 3
    shutil.rmtree(tmp_path / "run")
