"""Runs every example of README.md and docs/, and compares its output with the page.

Examples with curl write to a pipe, examples of the console to a terminal of 100 columns. See
docs/queries/README.md, "The examples".
"""

from __future__ import annotations

import doctest
import inspect
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from runpy import run_path

import pytest
from typer.testing import CliRunner

from local.kafka.broker import Broker
from queryable import Client
from queryable.cli.app import app
from queryable.cli.check.units import read_unit
from tests.support.deployment import settle
from tests.support.docs_examples import (
    ALL_PAGES,
    PAGES,
    ROOT,
    Example,
    examples_of,
    session_of,
    shell_environment,
)
from tests.support.plugins.fixtures import Deploy
from tests.system.queryable.terminal import run_in_terminal
from tests.system.queryable.wheel import build_wheel, install_wheel, run

EXAMPLE = ROOT / "docs" / "queries" / "example"
PROXY_PORT, BACKEND_PORT = 8080, 8081
# values that vary from run to run; later examples use the ETags and cursors of earlier ones
VOLATILE = re.compile(
    r'(?<=^etag: ")[a-z-]+-[0-9a-f]{8}-[0-9]+-[0-9]+-'
    r'|(?<="next":")[\w-]+'
    r"|(?<=^offset: )[0-9]+|(?<= as of offset )[0-9]+"
    r"|(?<=^lag: )\w+|(?<=^staleness: )\w+"
    r"|(?<=^record-timestamp: )[0-9]+"
    r"|(?<=^topology-epoch: )[0-9]+-[0-9]+"
    r"|(?<=^served-by: )b[0-9](?:; active, b[0-9])*"
    # output of the command-line tool
    r"|^[0-9-]{10}T[0-9:.]+Z(?= value )"
    r"|(?<=, position )[0-9]+(?=, )|(?<=, lag )(?:unknown|[0-9]+)(?=, from )"
    r"|(?<=, from )b[0-9]"
    r"|(?<=, lag )(?:unknown|[0-9,]+), staleness [0-9,]+(?= ms)",
    re.M,
)


@dataclass
class Console:
    """Runs command lines. `ports`: the port in the pages -> that of nginx or a backend."""

    ports: dict[int, int]
    home: Path
    # a value in the page -> the value in this run
    differing: dict[str, str] = field(default_factory=dict)

    def run(self, example: Example) -> str:
        command = example.command
        for shown, actual in self.differing.items():
            command = command.replace(shown, actual)
        for shown_port, port in self.ports.items():
            command = command.replace(f"127.0.0.1:{shown_port}", f"127.0.0.1:{port}")
        if example.is_of_console:
            return self._run_in_terminal(command)
        endless = " -N" in command
        process = subprocess.Popen(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "CURL_HOME": str(self.home)},
            start_new_session=True,
            text=True,
        )
        assert process.stdout is not None
        try:
            # of an endless stream only as much as is shown
            most = len(example.shown.splitlines()) if endless else None
            written = "".join(islice(process.stdout, most))
        finally:
            if process.poll() is None and endless:
                os.killpg(process.pid, signal.SIGTERM)
            process.stdout.close()
            process.wait(10)
        return self._as_shown(written)

    def _run_in_terminal(self, command: str) -> str:
        return self._as_shown(run_in_terminal(["bash", "-c", command], self.env)[1])

    @property
    def env(self) -> dict[str, str]:
        return shell_environment(f"http://127.0.0.1:{self.ports[PROXY_PORT]}")

    def _as_shown(self, written: str) -> str:
        for shown_port, port in self.ports.items():
            written = written.replace(f"127.0.0.1:{port}", f"127.0.0.1:{shown_port}")
        return written

    def check(self, example: Example) -> None:
        shown, actual = Answer.of(example.shown), Answer.of(self.run(example))
        # a page shows only the relevant headers
        actual.headers = {n: v for n, v in actual.headers.items() if n in shown.headers}
        message = f"{example.page.name}: $ {example.command}\n{actual}"
        assert VOLATILE.sub("…", str(actual)) == VOLATILE.sub("…", str(shown)), message
        found = (VOLATILE.findall(str(answer)) for answer in (shown, actual))
        self.differing |= {s: a for s, a in zip(*found, strict=True) if len(s) > 8}


@dataclass
class Answer:
    """The output of a command, without the additions of a page."""

    status: str
    headers: dict[str, str]
    body: str

    @classmethod
    def of(cls, text: str) -> Answer:
        head, body = "", text.replace("\r", "").strip("\n")
        if body.startswith("HTTP/"):
            head, _, body = body.partition("\n\n")
        if body.startswith("{"):
            body = re.sub(r"\n +", "", body)
        status, *lines = head.rstrip("\n").split("\n")
        pairs = (line.split(": ", 1) for line in lines)
        return cls(status, {name.lower(): value for name, value in pairs}, body)

    def __str__(self) -> str:
        headers = "".join(f"{name}: {value}\n" for name, value in sorted(self.headers.items()))
        return f"{self.status}\n{headers}\n{self.body}"


@pytest.fixture(scope="module")
def console(
    module_deploy: Deploy, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Console:
    """The data of the examples, loaded like by a reader, and nginx in front of two backends."""
    run_path(str(EXAMPLE / "load.py"))["load"](broker.bootstrap_servers)
    deployment = module_deploy((EXAMPLE / "views.toml").read_text())
    (deployment.folder / "order.avsc").symlink_to(EXAMPLE / "order.avsc")
    backends = deployment.start(2)
    settle(backends)
    # a backend without the key of the redirect examples
    elsewhere = "/messages/N10156?route=redirect"
    backends.sort(key=lambda backend: backend.get(elsewhere).status, reverse=True)
    home = tmp_path_factory.mktemp("home")
    (home / ".curlrc").write_text("silent\nshow-error\nmax-time = 15\n")
    nginx = deployment.proxy()
    ports = {BACKEND_PORT + n: backend.port for n, backend in enumerate(backends)}
    return Console({PROXY_PORT: nginx.port, **ports}, home)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_has_the_output_shown(console: Console, page: Path) -> None:
    console.differing.clear()
    for example in examples_of(page):
        console.check(example)


@pytest.mark.parametrize(
    "page", list(filter(session_of, ALL_PAGES)), ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_python_session_has_the_output_shown(console: Console, page: Path) -> None:
    text = session_of(page)
    for shown_port, port in console.ports.items():
        text = text.replace(f"127.0.0.1:{shown_port}", f"127.0.0.1:{port}")
    session = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    output: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=output.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(output)


def test_the_client_page_works_with_only_the_wheel_installed(
    console: Console, tmp_path: Path
) -> None:
    source, installed = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    scripts = install_wheel(build_wheel(source), installed)
    text = session_of(ROOT / "docs" / "client.md")
    for shown_port, port in console.ports.items():
        text = text.replace(f"127.0.0.1:{shown_port}", f"127.0.0.1:{port}")
    (tmp_path / "client.txt").write_text(text)
    run(scripts / "python", "-m", "doctest", "-o", "ELLIPSIS", "client.txt", cwd=tmp_path)


# Other tests run these: tests/system/e2e, test_stack.py, test_wheel.py and cli/start of
# tests/system/queryable; and those of docs/versions.md, in their order.
# tests/system/cluster/test_maintenance_commands.py runs those that change the placement, and
# test_deployments.py those with two deployments.
STARTING = ("up", "down", "demo", "bench", "init", "serve")
WITH_SPARK = ("pipeline",)
IN_ORDER = ("compare", "switch", "rollback", "drop")
MAINTENANCE = ("drain", "undrain", "rebuild")
OF_SERVICES = ("deployments", "switch_deployment", "rollback_deployment")
# tests/system/queryable/cli/test_mcp.py, and tests/unit/queryable/cli/start/test_source_files.py
OF_OTHERS = ("mcp", "sources")
NOT_HERE = (*STARTING, *WITH_SPARK, *IN_ORDER, *MAINTENANCE, *OF_SERVICES, *OF_OTHERS)


def examples_of_help() -> Iterator[str]:
    for command in app.registered_commands:
        assert command.callback is not None
        text = inspect.getdoc(command.callback) or ""
        found = [line.strip() for line in text.splitlines() if re.match(r" +\S*queryable ", line)]
        assert found, f"{command.callback.__name__} shows no example"
        if command.callback.__name__ not in NOT_HERE:
            yield from (line for line in found if " shop-2" not in line)


@dataclass
class HelpExample:
    """An example of a command's help, run in a folder with the files that it names."""

    command: str
    folder: Path
    env: dict[str, str]

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", self.command],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )


DERIVED = """
[views.orders-by-shop.derive]
from = "shop-orders"
fields = { shop = "string", qty = "int" }
key = "shop"
sum = "qty"

[views.by-maker.derive]
from = "flights"
fields = { tailnum = "string" }
key = "coalesce(plane.manufacturer, 'unknown')"
count = true

[views.by-maker.derive.join.plane]
from = "planes"
on = "tailnum"
fields = { manufacturer = "string?" }
static = true

[views.clicks.derive]
from = "raw-clicks"
fields = { page = "string" }
key = "page"
count = true
"""
DERIVED_FROM = {
    "orders.jsonl": '{"shop": "a", "qty": 2}\n',
    "out.jsonl": '{"key": "a", "value": 2}\n',
    "flights.jsonl": '{"tailnum": "N1"}\n',
    "planes.jsonl": '{"key": "N1", "value": {"manufacturer": "AIRBUS"}}\n',
    "clicks.jsonl": '{"value": {"page": "/"}}\n',
}
"""The views and files of `queryable derive`."""


@pytest.fixture
def help_example(
    console: Console, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], HelpExample]:
    for name in ("views.toml", "order.avsc"):
        shutil.copy(EXAMPLE / name, tmp_path)
    with (tmp_path / "views.toml").open("a") as views:
        views.write(DERIVED)
    for name, text in DERIVED_FROM.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "note.json").write_text('{"note": "washed"}')
    (tmp_path / ".run").mkdir()
    (tmp_path / ".run" / "token").write_text("a-token-of-a-deployment-without-authentication")
    (tmp_path / "connection.toml").write_text('[kafka]\n"client.id" = "me"\n')
    # a unit, with files of settings in this folder
    units = [str(tmp_path)]
    monkeypatch.setattr(
        "queryable.cli.check.target.read_unit", lambda name, _: read_unit(name, units)
    )
    unit = "queryable-backend@.service"
    text = (ROOT / "deploy" / "systemd" / unit).read_text()
    (tmp_path / unit).write_text(text.replace("/etc/queryable", str(tmp_path)))
    (tmp_path / "settings").write_text(f"QUERYABLE_BOOTSTRAP_SERVERS={broker.bootstrap_servers}\n")
    (tmp_path / "b1").write_text("QUERYABLE_PORT=8081\n")
    env = console.env | {"QUERYABLE_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    own = {
        "http://old:8080": env["QUERYABLE_URL"],
        "http://new:8080": f"http://127.0.0.1:{console.ports[BACKEND_PORT]}",
        "broker:9092": broker.bootstrap_servers,
    }

    def of(line: str) -> HelpExample:
        for shown, actual in own.items():
            line = line.replace(shown, actual)
        return HelpExample(line, tmp_path, env)

    return of


def is_endless(line: str) -> bool:
    return "watch" in line and "--count" not in line


def needs_a_shell(line: str) -> bool:
    """Whether it has a pipe or redirection, is interrupted, or waits for changes."""
    return "watch" in line or bool({"|", ">", ">>"} & set(shlex.split(line)))


@pytest.mark.parametrize("line", [line for line in examples_of_help() if not needs_a_shell(line)])
def test_every_example_of_the_help_runs(
    help_example: Callable[[str], HelpExample], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs in this process, because starting Python costs more than most examples."""
    example = help_example(line)
    monkeypatch.chdir(example.folder)
    program, *arguments = shlex.split(example.command)
    assert program == "queryable"
    done = CliRunner().invoke(app, arguments, env=example.env)
    # exit code 1 (not found, a difference, a failed check) is possible, a usage error is not
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


@pytest.mark.parametrize(
    "line",
    [line for line in examples_of_help() if needs_a_shell(line) and not is_endless(line)],
)
def test_every_example_of_the_help_runs_in_a_shell(
    help_example: Callable[[str], HelpExample], line: str
) -> None:
    example = help_example(line)
    with example.start() as process:
        if "watch" in line:  # it exits after a number of changes
            with Client(example.env["QUERYABLE_URL"]) as client:
                for number in count():
                    for key in range(10):
                        client.append("notes", f"N1-{key}", number)
                    if process.poll() is not None:
                        break
        output, _ = process.communicate(timeout=60)
    assert process.returncode in (0, 1), output
    assert "Traceback" not in output


@pytest.mark.parametrize("line", [line for line in examples_of_help() if is_endless(line)])
def test_endless_examples_of_the_help_run_until_ctrl_c(
    help_example: Callable[[str], HelpExample], line: str
) -> None:
    with help_example(line).start() as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert first
    assert "Traceback" not in first + rest
    assert process.returncode in (130, -signal.SIGINT)
