"""The file of `--kafka`. Without its settings, a connection would have neither TLS nor SASL."""

from __future__ import annotations

from pathlib import Path

import pytest

from queryable import BadUse
from queryable.cli.connection_settings import connection_settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "connection.toml"


def test_settings(file: Path) -> None:
    assert connection_settings(None) == {}
    file.write_text('[kafka]\n"sasl.username" = "${env:NAME}"\n"socket.keepalive.enable" = true\n')
    assert connection_settings(file) == {
        "sasl.username": "${env:NAME}",
        "socket.keepalive.enable": "true",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " has no table [kafka]."),
        ('"security.protocol" = "SSL"\n', " has no table [kafka]."),
        ("kafka = 1\n", ", line 1, [kafka]: must be a table: write [kafka]."),
        (
            '[kafka]\n"bootstrap.servers" = "a:1"\n',
            ", line 2, [kafka], bootstrap.servers: set QUERYABLE_BOOTSTRAP_SERVERS or "
            "--bootstrap-servers instead.",
        ),
        (
            '[kafka]\nsecurity.protocol = "SSL"\n',
            ', line 2, [kafka], security: quote the name of the setting: "security.…" = "…".',
        ),
    ],
)
def test_a_file_without_settings_is_refused(text: str, message: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(BadUse) as raised:
        connection_settings(file)
    assert raised.value.detail == f"{file}{message}"
