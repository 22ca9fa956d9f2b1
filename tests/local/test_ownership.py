"""Folders of other programs are never changed, whatever the settings are."""

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
    """Files as in /var/run or /etc."""
    (root / "sshd.pid").write_text("4711\n")
    (root / "lock").write_text("somebody's\n")
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
def test_a_folder_of_other_programs_is_refused_and_untouched(
    tmp_path: Path, use: Callable[[Path], object]
) -> None:
    var_run(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(LocalError, match=r"is not empty, .* nothing (in it )?was changed"):
        use(tmp_path)
    assert tree(tmp_path) == before


def test_a_new_folder_is_ours_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    claim(folder)
    assert (folder / MARK).exists()
    (folder / "whatever").touch()
    claim(folder)


def test_a_folder_from_before_there_were_marks_is_ours(tmp_path: Path) -> None:
    lay_out(tmp_path / "nginx", 1)
    (tmp_path / "lock").touch()
    (tmp_path / "logs").mkdir()
    claim(tmp_path)
    assert (tmp_path / MARK).exists()


def test_one_with_something_else_in_it_is_not(tmp_path: Path) -> None:
    lay_out(tmp_path / "nginx", 1)
    (tmp_path / "sshd.pid").write_text("4711\n")
    with pytest.raises(LocalError, match="QUERYABLE_RUN_DIR"):
        claim(tmp_path)
    assert not (tmp_path / MARK).exists()


def test_a_brokers_folder_is_known_by_its_configuration(tmp_path: Path) -> None:
    Broker(tmp_path / "a")._lay_out()
    (tmp_path / "a" / "logs").mkdir()
    (tmp_path / "a").rename(tmp_path / "b")
    Broker(tmp_path / "b", fresh=True)._lay_out()
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["server.properties"]
    (tmp_path / "b" / "server.properties").write_text("log.dirs=/tmp/kraft-combined-logs\n")
    with pytest.raises(LocalError, match="is not a data folder of this broker"):
        Broker(tmp_path / "b", fresh=True)._lay_out()
