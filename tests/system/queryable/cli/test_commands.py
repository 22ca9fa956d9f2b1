"""Each command against a real backend: in a pipe, on a terminal, interrupted, and its exit code."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from local.serve import _example
from local.settings import StackSettings
from local.waiting import wait_until
from queryable import DELETE, Client
from queryable.cli.app import app
from queryable.cli.exit_codes import (
    INTERRUPTED,
    NOT_FOUND,
    SUCCESS,
    UNAVAILABLE,
    USAGE_ERROR,
)
from tests.support.backends import START_TIMEOUT
from tests.support.clients.scripted_transport import ORDERS
from tests.support.deployment import settle
from tests.system.queryable.cli.deployed import BEGAN, COMMAND, HOUR, MANY, Deployed
from tests.system.queryable.terminal import Terminal


def test_scan(deployed: Deployed) -> None:
    def keys(*options: str) -> list[str]:
        return [row["key"] for row in deployed.rows("scan", "flights", *options)]

    assert deployed.rows("scan", "flights", "--limit", "1") == [
        {"key": "N0", "value": {"from": "EWR", "delay": 20}}
    ]
    assert keys("--from", "N1", "--to", "N2") == ["N1", "N2"]
    assert keys("--prefix", "N", "--order", "desc") == ["N2", "N1", "N0"]
    assert len(deployed.rows("scan", "many", "--stream", "--stale", "never")) == MANY
    assert keys("--where", "delay > 15 and key like 'N%'") == ["N0", "N2"]
    assert deployed.rows("scan", "flights", "--where", "key = 'N1'", "--select", "from,x") == [
        {"key": "N1", "value": {"from": "EWR", "x": None}}
    ]
    assert "--where: it is a string" in deployed.run(
        "scan", "flights", "--where", "lower(delay)", status=USAGE_ERROR
    )
    assert "no entries" in deployed.run("scan", "flights", "--prefix", "Z", status=NOT_FOUND)
    assert "nothing" in deployed.run("scan", "nothing", status=USAGE_ERROR)
    table = deployed.shown("scan", "flights")
    assert "┃ .delay ┃" in table
    assert "│ X[b] │" in table
    assert deployed.shown("scan", "flights", "--json", "--limit", "1").startswith('{"key":"N0"')


def test_progress_of_a_scan_goes_to_stderr(deployed: Deployed) -> None:
    at_once = (
        "import queryable.cli.progress as p; p._DELAY_S = p._INTERVAL_S = 0;"
        "from queryable.cli.app import main; main()"
    )
    file = deployed.backends.folder / "many.ndjson"
    script = f'exec {sys.executable} -c "{at_once}" scan many > {file}'
    with Terminal(["bash", "-c", script], deployed.env, term="xterm") as terminal:
        assert terminal.wait() == SUCCESS
        assert "rows/s" in terminal.text
        assert "of about" in terminal.text
    assert len(file.read_text().splitlines()) == MANY


def test_top_and_count(deployed: Deployed) -> None:
    rows = deployed.rows("top", "flights", "--by", "delay", "--limit", "2")
    assert [row["key"] for row in rows] == ["N2", "N0"]
    least = deployed.rows("top", "flights", "--by", "delay", "--order", "asc")
    assert [row["key"] for row in least] == ["N1", "N0", "N2"]
    assert "a field with texts such as 'EWR', and no numbers" in deployed.run(
        "top", "flights", "--by", "from", status=USAGE_ERROR
    )
    assert "a number in field none" in deployed.run(
        "top", "flights", "--by", "none", status=NOT_FOUND
    )
    lines = deployed.shown("top", "flights", "--by", "delay").splitlines()
    assert [line.count("█") > 10 for line in lines if "EWR" in line] == [True, True, False]
    assert deployed.rows("top", "bookings", "--order-by", "entries", "--to", str(BEGAN)) == [
        {"key": "anna", "value": 1},
        {"key": "bert", "value": 1},
    ]
    assert "view flights has a key-value store" in deployed.run(
        "top", "flights", "--by", "delay", "--to", "0", status=USAGE_ERROR
    )
    assert deployed.rows("count", "flights", "--exact") == [{"count": 4, "exact": True}]
    assert deployed.shown("count", "many") == f"{MANY:,}\n"


def test_aggregate(deployed: Deployed) -> None:
    newark = {"group": "EWR", "entries": 3, "count": 3, "sum": 50, "min": -10, "max": 40}
    none = dict.fromkeys(("sum", "min", "max", "avg"))
    assert deployed.rows("aggregate", "flights", "--by", "from", "--value", "delay") == [
        {**newark, "avg": 50 / 3},
        {"group": "JFK", "entries": 1, "count": 0, **none},
    ]
    by_origin = deployed.rows("aggregate", "flights", "--by", "from")
    assert by_origin == [{"group": "EWR", "entries": 3}, {"group": "JFK", "entries": 1}]
    assert (
        deployed.rows("aggregate", "flights", "--by", "from", "--order", "asc") == by_origin[::-1]
    )
    later = ("--from", "2013-01-01T01:00:00Z")
    assert deployed.rows("aggregate", "bookings", *later) == [{"group": None, "entries": 2}]
    shown = deployed.shown("aggregate", "flights", "--by", "from", "--value", "delay")
    assert re.search(r"EWR .* 50 ", shown)
    assert "█" in deployed.shown("aggregate", "flights", "--by", "from")
    assert "no entries" in deployed.run("aggregate", "visits", "--to", "0", status=NOT_FOUND)


def test_windows_sessions_and_versions(deployed: Deployed) -> None:
    assert deployed.rows("windows", "bookings", "bert") == [
        {"key": "bert", "start": BEGAN, "end": BEGAN + HOUR, "sequence": 0, "value": 4}
    ]
    later = ("--from", "2013-01-01T01:00:00Z", "--to", str(BEGAN + 2 * HOUR))
    assert [row["value"] for row in deployed.rows("windows", "bookings", *later)] == [9]
    assert len(deployed.rows("windows", "bookings", "--key-from", "anna", "--key-to", "b")) == 3
    shown = deployed.shown("windows", "bookings", "anna", "--order", "desc")
    assert "2013-01-01T05:00:00Z" in shown
    assert "▁█▂" in shown
    assert deployed.rows("sessions", "visits") == [
        {"key": "anna", "start": BEGAN, "end": BEGAN + HOUR, "value": 7}
    ]
    versions = deployed.rows("versions", "prices", "tea")
    assert [(row["value"], row["valid_to"]) for row in versions] == [
        (2, BEGAN + 24 * HOUR), (3, None),
    ]  # fmt: skip
    for command in (("windows", "bookings"), ("sessions", "visits"), ("versions", "prices")):
        assert "found in view" in deployed.run(*command, "nobody", status=NOT_FOUND)
    deployed.run("windows", "flights", status=USAGE_ERROR)


def test_append(deployed: Deployed) -> None:
    place = deployed.rows("append", "notes", "a1", '{"n":1}')[0]
    assert place.keys() == {"partition", "offset"}
    deployed.run("append", "notes", "a2", "--value-file", "-", input="[2]\n")
    with Client(deployed.url) as client, client.session():
        client.append("notes", "a3", 3)
        client.get("notes", "a3")
    assert "offset" in deployed.shown("append", "notes", "a3", "--delete")
    for wrong in (["{"], [], ["1", "--delete"], ["--value-file", "/nothing"]):
        deployed.run("append", "notes", "a1", *wrong, status=USAGE_ERROR)
    assert "no-such-resource" in deployed.run("append", "flights", "N1", "1", status=USAGE_ERROR)


class _Unconfirming(BaseHTTPRequestHandler):
    """Answers like a backend whose broker did not confirm in time."""

    def do_GET(self) -> None:
        if self.path == "/views/gone":
            # closed before the response, so that the next connection is refused
            self.server.server_close()
        self._respond(200, ORDERS)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._respond(503, {"code": "append-unconfirmed", "detail": "Not confirmed in time."})

    def _respond(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_unconfirmed_and_unavailable(deployed: Deployed) -> None:
    with HTTPServer(("127.0.0.1", 0), _Unconfirming) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        to = ("--url", f"http://127.0.0.1:{server.server_port}", "--timeout", "2")
        unconfirmed = deployed.run("append", "orders", "a", "1", *to, status=UNAVAILABLE)
        not_sent = deployed.run("append", "gone", "a", "1", *to, status=UNAVAILABLE)
        server.shutdown()
    assert "may be in topic orders" in unconfirmed
    assert "refused" in not_sent
    assert "may be" not in not_sent
    unreachable = ("--url", "http://127.0.0.1:1", "--timeout", "0.3")
    for command in (["scan", "many"], ["topology"]):
        errors = deployed.run(*command, *unreachable, status=UNAVAILABLE)
        assert "no-answer" in errors
        assert "QUERYABLE_URL" in errors


def test_views_and_completion_of_their_names(deployed: Deployed) -> None:
    names = [row["name"] for row in deployed.rows("views")]
    assert sorted(names) == ["bookings", "flights", "many", "notes", "prices", "visits"]
    assert deployed.rows("views", "visits")[0]["store"] == "session"
    assert "│ visits   │" in deployed.shown("views")
    assert "view-not-found" in deployed.run("views", "nothing", status=USAGE_ERROR)

    def completed(url: str) -> list[str]:
        completion = {"COMP_WORDS": "queryable get b", "COMP_CWORD": "2", "QUERYABLE_URL": url}
        env = {**deployed.env, **completion, "_QUERYABLE_COMPLETE": "complete_bash"}
        done = CliRunner().invoke(app, [], env=env, prog_name="queryable")
        assert (done.exit_code, done.stderr) == (SUCCESS, "")
        return done.stdout.split()

    # completion gives up after a second, which may be too short on a loaded machine
    wait_until(lambda: completed(deployed.url) == ["bookings"], 20, "the names of views")
    assert completed("http://127.0.0.1:1") == []


def test_watch_key_until_ctrl_c(deployed: Deployed) -> None:
    with subprocess.Popen(
        [*COMMAND, "watch", "notes", "w1"], env=deployed.env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "deleted"
        deployed.append("w1", {"n": 1})
        event = json.loads(process.stdout.readline())
        assert (event["event"], event["key"], event["value"]) == ("value", "w1", {"n": 1})
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=15)
        assert (process.returncode, rest, errors) == (INTERRUPTED, "", "")
    [row] = deployed.rows("watch", "notes", "w1", "--count", "1")
    assert (row["value"], row["offset"]) == ({"n": 1}, event["offset"])


def test_watch_prefix_until_ctrl_c(deployed: Deployed) -> None:
    watch = [*COMMAND, "watch", "notes", "--prefix", "p", "--interval", "0.1"]
    with Terminal(watch, deployed.env) as terminal:

        def wait_for(event: str, value: Any) -> None:
            numbers = count()

            def change() -> bool:
                # watch does not report that it has started, so make another change each time
                n = next(numbers)
                deployed.append(f"p{n}" if event == "new" else "p1", value(n))
                return event in terminal.text

            wait_until(change, 30, f"a line of {event}", 0.2)

        wait_for("new", lambda n: n)
        wait_for("changed", lambda n: {"n": n})
        wait_for("deleted", lambda _: DELETE)
        terminal.interrupt()
        assert terminal.wait() == INTERRUPTED
        assert "Traceback" not in terminal.text
        line = re.compile(r"\d{4}-\S*Z (new|changed|deleted) (p\d+) .*")
        matches = [line.fullmatch(text) for text in terminal.text.splitlines()]
        new = [match and match[2] for match in matches if not match or match[1] == "new"]
        assert len(new) == len(set(new) - {None}), terminal.text
    deployed.run("watch", "notes", status=USAGE_ERROR)
    deployed.run("watch", "notes", "k", "--prefix", "k", status=USAGE_ERROR)


@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_closed_pipe_is_not_an_error(deployed: Deployed, reader: str) -> None:
    # `true` exits before anything is written
    commands = "count flights", "scan many" if reader == "true" else "scan many --stream"
    for command in commands:
        script = f"{sys.executable} -m queryable {command} | {reader}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", script], env=deployed.env, capture_output=True, text=True, timeout=30
        )
        assert (done.returncode, done.stderr) == (SUCCESS, "")
        assert len(done.stdout.splitlines()) == (reader != "true")


def test_watched_topology_reaches_a_pipe_at_once(deployed: Deployed) -> None:
    with subprocess.Popen(
        [*COMMAND, "topology", "--watch"], env=deployed.env, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        stdout = process.stdout
        try:
            wait_until(lambda: select.select([stdout], [], [], 0)[0], 30, "the first document")
            assert json.loads(stdout.readline())["processors"][0]["id"] == "b1"
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(15) == INTERRUPTED


def test_topology(deployed: Deployed) -> None:
    [document] = deployed.rows("topology")
    assert [each["id"] for each in document["processors"]] == ["b1"]
    shown = deployed.shown("topology")
    assert document["epoch"] in shown
    assert "│ notes    │ 0-1        │ b1     │" in shown
    watch = [*COMMAND, "topology", "--watch", "--interval", "0.1"]
    with Terminal(watch, deployed.env, term="xterm") as terminal:
        terminal.wait_for(lambda text: "standbys" in text)
        deployed.backends.new().launch()
        terminal.wait_for(lambda text: "b2 joined" in text, START_TIMEOUT)
        terminal.wait_for(lambda text: "► b2" in text, START_TIMEOUT)
        terminal.interrupt()
        assert terminal.wait() == INTERRUPTED
        assert "Traceback" not in terminal.text
        # not "standbys": output below the screen is cut off
        drawings = terminal.text.split("instance")
        assert max(drawing.count("b2 joined") for drawing in drawings) == 1
        assert terminal.text.endswith("\x1b[?25h")  # the cursor is visible again
    settle(deployed.backends.all)


@pytest.mark.parametrize(
    ("view", "target"),
    [
        ("flights", "/views/flights/keys/N0"),
        ("bookings", "/views/bookings/keys/anna/windows?order=desc&limit=1"),
        ("visits", "/views/visits/keys/anna/sessions?order=desc&limit=1"),
        ("prices", "/views/prices/keys/tea"),
        ("nothing", None),
    ],
)
def test_serve_shows_a_request_of_any_kind_of_store(
    deployed: Deployed, view: str, target: str | None
) -> None:
    settings = StackSettings(proxy_port=int(deployed.url.rpartition(":")[2]))
    found = _example(settings, view)
    if target is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0], found[1].status) == (target, 200)


def test_describe(deployed: Deployed) -> None:
    [flights] = deployed.rows("describe", "flights", "--seconds", "1.2")
    assert (flights["topic"], flights["store"], flights["partitions"]) != ("", "", 0)
    assert (flights["answerable"], flights["lag"], flights["dead_letters"]) == (1, 0, 0)
    assert flights["size_bytes"] > 0
    assert flights["records_per_second"] == 0
    assert {field["field"]: field["in"] for field in flights["fields"]} == {
        ".from": "4/4", ".delay": "3/4",
    }  # fmt: skip
    assert [row["key"] for row in flights["sample"]] == ["N0", "N1", "N2"]
    [bookings] = deployed.rows("describe", "bookings", "--seconds", "0")
    assert bookings["sample"][0]["start"] == BEGAN
    assert bookings["records_per_second"] is None
    shown = deployed.shown("describe", "flights", "--seconds", "0", "--sample", "2")
    assert re.search(r"^  dead letters  0$", shown, re.M)
    assert "rates         not measured" in shown


def test_fields(deployed: Deployed) -> None:
    # the fixture declares a field that no value has
    missing = deployed.run("fields", "flights", status=NOT_FOUND)
    assert missing == 'gate: declared as "string", but 4 of 4 values are missing or null\n'
    rows = CliRunner().invoke(app, ["fields", "flights", "--json"], env=deployed.env)
    assert [json.loads(line) for line in rows.stdout.splitlines()] == [
        {"name": "from", "type": "string", "values": 4, "example": "EWR", "declared": "string"},
        {"name": "delay", "type": "int?", "values": 3, "example": "20", "note": "not declared"},
        {"name": "gate", "type": "string?", "values": 0, "example": "", "declared": "string",
         "difference": missing.removeprefix("gate: ").strip()},
    ]  # fmt: skip
    deployed.append("f1", {"n": 1, "crew": {"captain": "A"}, "at": "2013-01-01T00:00:00Z"})
    deployed.append("f2", {"n": 2.5, "crew": {}, "at": "2013-01-01T01:00:00Z"})
    mine = ("fields", "notes", "--where", "key like 'f%'")
    wait_until(lambda: "2 values" in deployed.run(*mine), 20, "both notes")
    table = tomllib.loads(deployed.run(*mine))
    assert table["views"]["notes"]["fields"] == {
        "n": "double", "crew.captain": "string?", "at": "time",
    }  # fmt: skip
    assert "[views.notes.fields]" in deployed.shown(*mine), "also on a terminal"
    assert "are not JSON objects" in deployed.run("fields", "bookings", status=USAGE_ERROR)


def test_a_query_of_another_kind_of_store_names_the_command(deployed: Deployed) -> None:
    for arguments, advice in (
        (("get", "bookings", "anna"), "use `queryable windows bookings KEY`"),
        (("scan", "bookings"), "use `queryable windows bookings`"),
        (("windows", "flights", "N0"), "use `queryable get flights KEY`"),
        (("sessions", "bookings"), "use `queryable windows bookings KEY`"),
        (("versions", "flights", "N0"), "use `queryable get flights KEY`"),
    ):
        error = deployed.run(*arguments, status=2)
        assert advice in error, arguments
        assert "/views/" not in error
