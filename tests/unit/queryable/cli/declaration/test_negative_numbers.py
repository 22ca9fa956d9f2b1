"""Negative numbers as arguments, without `--`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from queryable.cli.app import app
from queryable.cli.declaration.negative_numbers import with_separator
from tests.unit.queryable.client.fake_server import RequestHandler, serving

VALUED = frozenset(("--from", "--limit", "-n"))


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        ("ints -5", "-- ints -5"),
        ("ints -5 --json", "--json -- ints -5"),
        ("ints -5 7 -.5 -Infinity", "-- ints -5 7 -.5 -Infinity"),
        ("ints --json -5 --limit 3", "--json --limit 3 -- ints -5"),
        ("ints 5 --from -5", "ints 5 --from -5"),
        ("ints -5 --from -7", "--from -7 -- ints -5"),
        ("ints -5 --from=-7", "--from=-7 -- ints -5"),
        ("ints -- -5", "-- ints -5"),
        ("ints -5 -- --json", "-- ints -5 --json"),
        ("ints -x", "ints -x"),
        ("ints - -5", "-- ints - -5"),
        ("ints -5 --from", "--from -- ints -5"),
        ("ints 5 --json", "ints 5 --json"),
    ],
)
def test_arguments(written: str, parsed: str) -> None:
    assert with_separator(written.split(), VALUED) == parsed.split()


@pytest.mark.parametrize(
    "order", ["get orders -5 --json", "get --json orders -5", "get --json orders -- -5"]
)
def test_a_negative_key(order: str) -> None:
    def respond(request: RequestHandler) -> None:
        request.respond(200, {"key": "-5", "value": {"n": 1}}, partition="0", offset="1")

    with serving(respond) as server:
        done = CliRunner().invoke(app, order.split(), env={"QUERYABLE_URL": server.url})
        assert done.exit_code == 0, done.output
        assert server.paths[-1] == "/views/orders/keys/-5"
    assert '"n":1' in done.stdout


def test_a_wrong_option_is_still_refused() -> None:
    done = CliRunner().invoke(app, ["get", "ints", "--jsn", "-5"])
    assert done.exit_code == 2
    assert "No such option: --jsn" in done.stderr
