"""`queryable token`, and the token of the other commands."""

from __future__ import annotations

import inspect
import stat
from pathlib import Path

import jwt
import pytest
from typer.testing import CliRunner, Result

from backend.security.identity import known_scopes
from queryable.cli.app import app
from queryable.cli.config import config_path
from queryable.cli.signing import SCOPE
from tests.unit.queryable.client.fake_server import RequestHandler, serving


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUERYABLE_TOKEN", "QUERYABLE_URL", "QUERYABLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("algorithm", ["ES256", "HS256"])
def test_a_new_key_signs_a_token_that_the_verifying_key_accepts(algorithm: str) -> None:
    done = run("token", "read:*", "append:orders", "read:*", "--key-file", "keys/key", "--issuer",
               "me", "--algorithm", algorithm, "--lifetime", "5m", "--subject", "ann")  # fmt: skip
    assert done.exit_code == 0, done.output
    key = Path("keys/key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    verifying = Path("keys/key.pub") if algorithm == "ES256" else key
    assert f"QUERYABLE_JWT_KEY_FILE={verifying.absolute()}\n" in done.stderr
    claims = jwt.decode(done.stdout.strip(), verifying.read_bytes().strip(), [algorithm])
    assert claims["exp"] - claims["iat"] == 300
    assert (claims["sub"], claims["iss"]) == ("ann", "me")
    assert "aud" not in claims
    assert claims["scope"] == "read:* append:orders"
    again = run("token", "metrics", "--key-file", "keys/key")
    assert "created" not in again.stderr
    assert jwt.decode(again.stdout.strip(), verifying.read_bytes().strip(), [algorithm])
    assert key.read_text().strip() not in done.output + again.output


def test_the_scopes_are_those_of_the_backends() -> None:
    for scope in ("read:*", "append:a.b-c_D1", "metrics", "admin"):
        assert SCOPE.fullmatch(scope)
        assert known_scopes([scope])
    for scope in ("read:", "read", "reed:a", "append:a b", "metrics ", "admin:x", "read:a/b"):
        assert not SCOPE.fullmatch(scope)
        assert not known_scopes([scope])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reed:x"], "'reed:x' is not a scope. Scopes: read:VIEW"),
        (["read:x", "--lifetime", "long"], '"long" is not a valid duration'),
        (["read:x", "--algorithm", "RS256"], "Supported: ES256, HS256"),
        (["read:x", "--algorithm", "ES256", "--key-file", "secret"], "is not for ES256"),
        (["read:x", "--key-file", "short"], "has 5 bytes; HS256 needs 32"),
        (["read:x", "--key-file", "public"], "neither a private P-256 key"),
        (["read:x", "--key-file", "secret/key"], "Cannot create secret/key: "),
    ],
)
def test_errors_say_what_is_wrong_and_never_show_a_key(arguments: list[str], message: str) -> None:
    Path("secret").write_text("s" * 40)
    Path("short").write_text("short\n")
    Path("public").write_text("-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n")
    done = run("token", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "s" * 40 not in done.output
    assert done.stdout == ""


def test_the_token_of_a_command_comes_from_the_option_else_the_environment_else_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str | None] = []

    def respond(request: RequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        request.respond(200, {"key": "a", "value": 1})

    with serving(respond) as server:
        config_path().parent.mkdir()
        config_path().write_text(f'url = "{server.url}"\ntoken_file = "configured"\n')
        Path("configured").write_text("from-config\n")
        Path("given").write_text("from-option\n")
        get = ("get", "orders", "a")
        assert run(*get).exit_code == 0
        monkeypatch.setenv("QUERYABLE_TOKEN", "from-environment")
        assert run(*get).exit_code == 0
        assert run(*get, "--token-file", "given").exit_code == 0
    assert seen == [f"Bearer from-{origin}" for origin in ("config", "environment", "option")]


def test_every_command_that_takes_a_url_takes_a_token_file_and_none_takes_a_token() -> None:
    with_url = 0
    for command in app.registered_commands:
        assert command.callback is not None
        names = inspect.signature(command.callback).parameters.keys()
        assert "token" not in names, "other users of the machine see arguments"
        if "url" in names:
            with_url += 1
            assert "token_file" in names, command.callback.__name__
    assert with_url == 31


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "Set a valid token with --token-file FILE, QUERYABLE_TOKEN"),
        (403, "The token needs the scope read:orders."),
    ],
)
def test_a_refusal_says_what_to_do(status: int, advice: str) -> None:
    def refuse(request: RequestHandler) -> None:
        document = {"code": "refused", "detail": "A detail.", "status": status}
        request.respond(status, document, WWW_Authenticate='Bearer scope="read:orders"')

    with serving(refuse) as server:
        done = run("get", "orders", "a", "--url", server.url)
    assert done.exit_code == 2
    assert done.stderr.startswith("queryable: A detail. [refused]\n")
    assert advice in done.stderr


def test_a_public_key_that_is_there_is_not_taken_for_the_new_one() -> None:
    """Regression: the second call signed tokens that no backend accepts."""
    Path("key.pub").write_text("old")
    for _ in range(2):
        done = run("token", "read:*", "--key-file", "key", "--subject", "ann")
        assert done.exit_code == 2
        assert "Cannot create key.pub: File exists." in done.stderr
        assert not Path("key").exists()
    assert Path("key.pub").read_text() == "old"


def test_a_user_without_a_name_says_whose_the_token_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def getuser() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", getuser)
    done = run("token", "read:*", "--key-file", "key")
    assert done.exit_code == 2
    assert "--subject NAME" in done.stderr
    assert run("token", "read:*", "--key-file", "key", "--subject", "ann").exit_code == 0
