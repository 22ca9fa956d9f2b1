"""A views file that exists is never replaced unasked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from queryable import BadUse
from queryable.cli.start.views_writer import ADD, REPLACE, what_to_do, write_views

ORDERS = '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'
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


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadUse, match=r"Cannot write .*/missing/views\.toml: No such file"):
        write_views(tmp_path / "missing" / "views.toml", "", ORDERS, is_added=False)
