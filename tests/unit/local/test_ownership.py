"""Folders of other programs are never changed, with any settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local.errors import LocalError
from local.kafka.broker import Broker
from local.settings import StackSettings
from local.stack.nginx import lay_out
from local.stack.ownership import MARK, claim
from local.stack.run_folder import lock, stop_background
from local.stack.stack import Stack
from tests.support.file_tree import tree


def var_run(root: Path) -> None:
    """Creates files like those in /var/run or /etc."""
    (root / "sshd.pid").write_text("4711\n")
    (root / "lock").write_text("of another program\n")
    (root / "nginx").mkdir()
    (root / "nginx" / "nginx.conf").write_text("events {}\n")
    (root / "logs").mkdir()
    (root / "data").mkdir()


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda root: Stack(StackSettings(run_dir=root)).start(print), id="up"),
        pytest.param(stop_background, id="down"),
        pytest.param(lock, id="lock"),
        pytest.param(lambda root: claim(root), id="bench, faults and soak"),
        pytest.param(lambda root: Broker(root, fresh=True)._lay_out(), id="a new broker"),
        pytest.param(lambda root: Broker(root)._lay_out(), id="a broker"),
    ],
)
def test_a_folder_of_other_programs_is_an_error_and_not_changed(
    tmp_path: Path, use: Callable[[Path], object]
) -> None:
    var_run(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(LocalError, match=r"is not empty and .*; nothing (in it )?was changed"):
        use(tmp_path)
    assert tree(tmp_path) == before


def test_a_claimed_folder_can_be_claimed_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    claim(folder)
    assert (folder / MARK).exists()
    (folder / "file").touch()
    claim(folder)


def test_a_stack_folder_of_a_version_without_marks_is_claimed(tmp_path: Path) -> None:
    lay_out(tmp_path / "nginx", 1)
    (tmp_path / "lock").touch()
    (tmp_path / "logs").mkdir()
    claim(tmp_path)
    assert (tmp_path / MARK).exists()


def test_a_stack_folder_with_other_files_is_not_claimed(tmp_path: Path) -> None:
    lay_out(tmp_path / "nginx", 1)
    (tmp_path / "sshd.pid").write_text("4711\n")
    with pytest.raises(LocalError, match="QUERYABLE_RUN_DIR"):
        claim(tmp_path)
    assert not (tmp_path / MARK).exists()


def test_a_brokers_folder_is_identified_by_its_configuration(tmp_path: Path) -> None:
    Broker(tmp_path / "a")._lay_out()
    (tmp_path / "a" / "logs").mkdir()
    (tmp_path / "a").rename(tmp_path / "b")
    Broker(tmp_path / "b", fresh=True)._lay_out()
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["server.properties"]
    (tmp_path / "b" / "server.properties").write_text("log.dirs=/tmp/kraft-combined-logs\n")
    with pytest.raises(LocalError, match="is not a data folder of this broker"):
        Broker(tmp_path / "b", fresh=True)._lay_out()
