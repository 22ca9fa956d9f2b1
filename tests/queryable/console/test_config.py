"""Where the console finds its deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from queryable import BadUse, Client
from queryable.console.config import Common, config_path, read_config


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("QUERYABLE_URL", "QUERYABLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def write(text: str) -> None:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(text)


def base_of(client: Client) -> str:
    with client:
        return client._core.settings.base


def test_an_option_goes_before_the_environment_and_that_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert base_of(Common().client()) == "http://127.0.0.1:8080"
    write('url = "http://file:1/"\ntimeout = 3\ndirect = true\n')
    assert base_of(Common().client()) == "http://file:1"
    monkeypatch.setenv("QUERYABLE_URL", "http://environment:2")
    assert base_of(Common().client()) == "http://environment:2"
    assert base_of(Common("http://option:3").client()) == "http://option:3"
    assert base_of(Common("http://option:3").client("http://argument:4")) == "http://argument:4"


def test_the_file_tells_time_out_and_direct_too() -> None:
    write("timeout = 3\ndirect = true\n")
    settings = Common().client()._core.settings
    assert (settings.timeout, settings.direct) == (3, True)
    assert Common(timeout=0.5).client()._core.settings.timeout == 0.5


def test_the_file_may_stand_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = home / "other.toml"
    other.write_text('url = "http://other:1"\n')
    monkeypatch.setenv("QUERYABLE_CONFIG", str(other))
    assert base_of(Common().client()) == "http://other:1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('uri = "x"', "'uri' is no setting; there are url, timeout, direct"),
        ("url = 1", "url cannot be 1"),
        ('timeout = "3"', "timeout cannot be '3'"),
        ("timeout = true", "timeout cannot be True"),
        ("url", "cannot be read"),
        ('url = "proxy"', "no URL"),
        ("timeout = 0", "not above 0"),
    ],
)
def test_what_is_not_right_is_told(text: str, told: str) -> None:
    write(text)
    with pytest.raises(BadUse, match=told):
        Common().client()


def test_no_file_is_no_setting() -> None:
    assert read_config() == {}
