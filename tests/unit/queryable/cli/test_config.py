"""Options, environment and configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from queryable import BadUse, Client
from queryable.cli.config import Connection, config_path, read_config
from queryable.cli.error_texts import error_text
from queryable.cli.exit_codes import advice
from queryable.client.protocol.errors import NoAnswer, QueryableError, Unauthenticated


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("QUERYABLE_URL", "QUERYABLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def write(text: str) -> None:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(text)


def base_url(client: Client) -> str:
    with client:
        return client._context.settings.base_url


def test_options_override_the_environment_which_overrides_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert base_url(Connection().client()) == "http://127.0.0.1:8080"
    write('url = "http://file:1/"\ntimeout = 3\ndirect = true\n')
    assert base_url(Connection().client()) == "http://file:1"
    monkeypatch.setenv("QUERYABLE_URL", "http://environment:2")
    assert base_url(Connection().client()) == "http://environment:2"
    assert base_url(Connection("http://option:3").client()) == "http://option:3"
    assert (
        base_url(Connection("http://option:3").client("http://argument:4")) == "http://argument:4"
    )


def test_file_sets_timeout_and_direct() -> None:
    write("timeout = 3\ndirect = true\n")
    settings = Connection().client()._context.settings
    assert (settings.timeout, settings.direct) == (3, True)
    assert Connection(timeout=0.5).client()._context.settings.timeout == 0.5


def test_file_given_by_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = home / "other.toml"
    other.write_text('url = "http://other:1"\n')
    monkeypatch.setenv("QUERYABLE_CONFIG", str(other))
    assert base_url(Connection().client()) == "http://other:1"
    # with a typo, a command would be sent to another deployment
    monkeypatch.setenv("QUERYABLE_CONFIG", f"{other}x")
    with pytest.raises(BadUse, match=r"Cannot read .*other\.tomlx \(QUERYABLE_CONFIG\): No such"):
        Connection().client()
    monkeypatch.setenv("QUERYABLE_CONFIG", "/dev/null")
    assert read_config() == {}


@pytest.mark.parametrize("error", [NoAnswer("no"), Unauthenticated("no-token", "no")])
def test_advice_names_the_file_that_is_read(
    error: QueryableError, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"{home}/queryable/config.toml. " in f"{advice(error)} "
    monkeypatch.setenv("QUERYABLE_CONFIG", "other.toml")
    assert " in other.toml. " in f"{advice(error)} "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('uri = "x"', "unknown setting 'uri'. Supported: url, timeout, direct"),
        ("url = 1", "url = 1 is invalid: expected str"),
        ('timeout = "3"', "timeout = '3' is invalid"),
        ("timeout = true", "timeout = True is invalid"),
        ("url", "Cannot read"),
        ('url = "proxy"', "not a valid URL"),
        ("timeout = 0", r"config\.toml: timeout = 0 is invalid: it must be greater than 0"),
    ],
)
def test_invalid_settings_are_rejected(text: str, message: str) -> None:
    write(text)
    with pytest.raises(BadUse, match=message):
        Connection().client()


def test_errors_of_the_file_have_its_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other errors are options: `--token-file`."""
    file = home / "token_file.toml"
    monkeypatch.setenv("QUERYABLE_CONFIG", str(file))
    for text, error in (
        ("token_file = 3", "token_file = 3 is invalid: expected str."),
        ("uri = 3", "unknown setting 'uri'. Supported: url, timeout, direct, token_file, ca_file."),
        ("timeout = nan", "timeout = nan is invalid: it must be greater than 0."),
    ):
        file.write_text(text)
        with pytest.raises(BadUse) as raised:
            Connection().client()
        assert error_text(raised.value) == f"{file}: {error}"


def test_missing_file_is_an_empty_configuration() -> None:
    assert read_config() == {}
