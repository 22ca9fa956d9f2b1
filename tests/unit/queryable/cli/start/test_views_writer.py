"""A views file that exists is never replaced unasked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from queryable import BadUse
from queryable.cli.start.views_writer import (
    ADD,
    REPLACE,
    existing_schemas,
    kafka_to_add,
    what_to_do,
    write_views,
)

ORDERS = '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'
KAFKA = '[kafka]\n"security.protocol" = "SSL"\n\n'
OTHERS = ORDERS.replace("orders", "others")


def test_a_file_that_exists_is_kept_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "views.toml"
    assert what_to_do(path, add=False, force=False, is_interactive=False) == REPLACE
    path.write_text(ORDERS)
    with pytest.raises(BadUse, match=r"was not changed\. --add .* --force .* --views"):
        what_to_do(path, add=False, force=False, is_interactive=False)
    assert what_to_do(path, add=True, force=False, is_interactive=False) == ADD
    assert what_to_do(path, add=False, force=True, is_interactive=False) == REPLACE


def test_a_view_is_added_after_the_others(tmp_path: Path) -> None:
    path = tmp_path / "views.toml"
    write_views(path, "", ORDERS, is_added=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "it may have passwords"
    write_views(path, "", OTHERS, is_added=True)
    assert path.read_text() == f"{ORDERS}\n{OTHERS}"
    with pytest.raises(BadUse, match="was not changed"):
        write_views(path, "", ORDERS, is_added=True)
    assert path.read_text() == f"{ORDERS}\n{OTHERS}"
    assert list(tmp_path.iterdir()) == [path]


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUse, match=r"--add .* --force"):
        what_to_do(tmp_path / "views.toml", add=True, force=True, is_interactive=False)


def test_a_file_keeps_its_mode_and_group(tmp_path: Path) -> None:
    path = tmp_path / "views.toml"
    path.write_text(ORDERS)
    group = 1 if os.geteuid() == 0 else max(os.getgroups(), default=os.getgid())
    os.chown(path, -1, group)
    path.chmod(0o640)
    write_views(path, "", OTHERS, is_added=True)
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) == (0o640, group)
    path.chmod(0o644)
    write_views(path, "", ORDERS, is_added=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_file_whose_owner_cannot_be_kept_is_written_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "views.toml"
    path.write_text(ORDERS)
    before = path.stat()
    values = [*before[:4], before.st_uid + 1, *before[5:]]
    monkeypatch.setattr(Path, "stat", lambda *_, **__: os.stat_result(values))

    def fchown(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", fchown)
    write_views(path, "", OTHERS, is_added=True)
    assert path.read_text() == f"{ORDERS}\n{OTHERS}"
    assert "it has another owner or group now" in capsys.readouterr().err


@pytest.mark.parametrize("is_added", [False, True])
def test_other_users_may_not_read_new_passwords(
    is_added: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "views.toml"
    path.write_text(ORDERS)
    path.chmod(0o644)
    write_views(path, KAFKA, OTHERS, is_added=is_added)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "only its user and group may read it" in capsys.readouterr().err
    assert path.read_text() == (f"{ORDERS}\n" if is_added else "") + KAFKA + OTHERS
    assert list(tmp_path.iterdir()) == [path]


def test_the_connection_is_added_to_a_file_without_one(tmp_path: Path) -> None:
    path, table = tmp_path / "views.toml", {"security.protocol": "SSL"}
    path.write_text(ORDERS)
    assert kafka_to_add(path, table) == table
    assert kafka_to_add(path, {}) == {}
    path.write_text(KAFKA + ORDERS)
    assert kafka_to_add(path, table) == {}
    with pytest.raises(BadUse, match=r"other settings .* not changed.*--kafka .*views\.toml"):
        kafka_to_add(path, {"security.protocol": "PLAINTEXT"})
    path.write_text("[kafka")
    with pytest.raises(BadUse, match="Cannot read"):
        kafka_to_add(path, table)


def test_the_source_of_schemas_of_an_existing_file_stays(tmp_path: Path) -> None:
    path, url = tmp_path / "views.toml", "http://127.0.0.1:8081"
    path.write_text(ORDERS)
    assert existing_schemas(path, None) is None
    assert existing_schemas(path, url) is None
    path.write_text(f'[schemas]\nregistry = "{url}"\n{ORDERS}')
    for given in (None, url, f"{url}/", "-"):
        source = existing_schemas(path, given)
        assert source is not None
        assert source.name == url
    for given in (f"{url}1", "registry:8081"):
        with pytest.raises(BadUse, match="--schema-registry"):
            existing_schemas(path, given)
    path.write_text(f'[schemas]\nfolder = "schemas"\n{ORDERS}')
    source = existing_schemas(path, None)
    assert source is not None
    assert source.name == str(tmp_path / "schemas")
    with pytest.raises(BadUse, match="another source than --schema-registry, and was not changed"):
        existing_schemas(path, url)
    path.write_text(f"[schemas]\n{ORDERS}")
    with pytest.raises(BadUse, match="line 1"):
        existing_schemas(path, None)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadUse, match=r"Cannot write .*/missing/views\.toml: No such file"):
        write_views(tmp_path / "missing" / "views.toml", "", ORDERS, is_added=False)
