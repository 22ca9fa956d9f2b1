"""What `check` looks at: a unit of systemd, files of settings, or what `serve` runs with."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from local.settings import REPOSITORY, StackSettings
from queryable.cli.app import app
from queryable.cli.check.target import SERVED, find_target
from queryable.cli.check.units import Unit, read_unit
from queryable.client.protocol.errors import BadUse

PACKAGED = REPOSITORY / "deploy/systemd/queryable-backend@.service"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("QUERYABLE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unit(folder: Path, text: str, name: str = "q@.service", **drop_ins: str) -> None:
    (folder / name).write_text(text)
    for drop_in, more in drop_ins.items():
        path = folder / f"{name}.d" / f"{drop_in}.conf"
        path.parent.mkdir(exist_ok=True)
        path.write_text(more)


def read(folder: Path, name: str = "q@b1") -> Unit:
    return read_unit(name, (str(folder / "empty"), str(folder)))


def test_the_packaged_unit(folder: Path) -> None:
    text = PACKAGED.read_text().replace("/etc/queryable", str(folder))
    unit(folder, text, "queryable-backend@.service")
    (folder / "settings").write_text(
        '# for all\nQUERYABLE_APPLICATION_ID="shop"\nQUERYABLE_PORT=1\n'
        "QUERYABLE_INSTANCE_ID=\\\nx\n"
    )
    (folder / "b1").write_text("QUERYABLE_PORT=8082\n")
    found = read(folder, "queryable-backend@b1")
    assert found.environment == {
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "QUERYABLE_DATA_DIR": "/var/lib/queryable/b1",
        "QUERYABLE_APPLICATION_ID": "shop",
        "QUERYABLE_PORT": "8082",
        "QUERYABLE_INSTANCE_ID": "x",  # a file overrides Environment=
    }
    assert (found.folder, found.open_files, found.memory_max) == (Path("/"), 65_536, 1 << 30)
    (folder / "settings").write_text("")
    of_unit = read(folder, "queryable-backend@b1").environment
    assert of_unit["QUERYABLE_INSTANCE_ID"] == f"b1-{socket.gethostname()}"


def test_drop_ins_add_and_reset(folder: Path) -> None:
    unit(
        folder,
        "[Unit]\nEnvironment=NO=1\n[Service]\nEnvironment=A=1 \"B=2 3\" 'C=4'\nEnvironment=A=5\n"
        "EnvironmentFile=-/no/such/file\nLimitNOFILE=1024:infinity\n",
        z="[Service]\nEnvironment=Z=%i-%I-%p-%n-%%\nMemoryMax=256M\nWorkingDirectory=/srv\n",
        a="[Service]\nEnvironment=\nEnvironment=D=1 \\\n# a comment\n  E=2\n"
        "LimitNOFILE=2048:4096\n",
    )
    found = read(folder, "q@a-b.service")
    assert found.environment == {"D": "1", "E": "2", "Z": "a-b-a/b-q-q@a-b.service-%"}
    assert (found.folder, found.open_files, found.memory_max) == (Path("/srv"), 4096, 256 << 20)


def test_a_unit_of_one_instance_comes_before_the_template(folder: Path) -> None:
    unit(folder, "[Service]\nEnvironment=A=template\n", t="[Service]\nEnvironment=T=1\n")
    unit(folder, "[Service]\nEnvironment=A=own\n", "q@b1.service")
    assert read(folder).environment == {"A": "own", "T": "1"}
    assert read(folder, "q@b2").environment == {"A": "template", "T": "1"}


def test_a_unit_that_does_not_exist(folder: Path) -> None:
    with pytest.raises(BadUse, match=r"no unit q@b1\.service in .*--env-file"):
        read(folder)
    unit(folder, "[Service]\nEnvironmentFile=/no/such/file\n")
    with pytest.raises(BadUse, match="Cannot read /no/such/file"):
        read(folder)


def test_the_environment_of_the_shell_is_not_that_of_a_unit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYABLE_MAX_STREAMS", "7")
    monkeypatch.setenv("OTHER", "kept")
    work = folder / "work"
    work.mkdir()
    unit(folder, f"[Service]\nEnvironment=QUERYABLE_PORT=1\nWorkingDirectory={work}\n")
    target = find_target([], "q@b1", False, (str(folder),))
    assert "QUERYABLE_MAX_STREAMS" not in target.environment
    with target.applied():
        assert (os.environ["QUERYABLE_PORT"], os.environ["OTHER"]) == ("1", "kept")
        assert Path.cwd() == work
    assert (os.environ.get("QUERYABLE_PORT"), Path.cwd()) == (None, folder)
    with pytest.raises(BadUse, match="either a unit or files"):
        find_target([folder / "x"], "q@b1", False)


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["check", "--timeout", "0.2", *options])


def check(*options: str) -> str:
    """A line for each finding."""
    rows = [json.loads(line) for line in run(*options).stdout.splitlines()]
    return "".join(f"{row['about']}: {row['says']} {row['do']}\n" for row in rows)


@pytest.mark.slow
def test_files_of_settings(folder: Path) -> None:
    (folder / "all").write_text('QUERYABLE_DATA_DIR="of all"\nQUERYABLE_MAX_STREEMS=1\n')
    (folder / "b1").write_text("QUERYABLE_DATA_DIR=of-b1\nQUERYABLE_PORT=none\n")
    text = check("--env-file", "all", "--env-file", "b1")
    assert "deployment: the settings in all, b1" in text
    assert "data folder of-b1" in text
    assert "QUERYABLE_PORT" in text
    assert "did you mean QUERYABLE_MAX_STREAMS?" in text
    done = run("--env-file", "missing")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Cannot read missing: No such file" in done.stderr


@pytest.mark.slow
def test_what_serve_runs_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from local.serve import write_settings

    run_dir = SERVED.parent
    run_dir.mkdir()
    views = folder / "views.toml"
    views.write_text('[views.v]\ntopic = "t"\nkey = "string"\nvalue = "json"\n')
    settings = StackSettings(
        run_dir=run_dir, views=views, bootstrap_servers="127.0.0.1:1", application_id="served"
    )
    assert write_settings(settings) == "queryable check --production"
    text = check("--production")
    assert "deployment: what `queryable serve` runs in this folder" in text
    assert f"data folder {folder}/.queryable/state/" in text
    assert "application id: served" in text
    assert "instance id: b1" in text
    assert "data folder data:" not in text
    # another deployment is meant
    assert "data folder data:" in check("--views", "views.toml")
    monkeypatch.setenv("QUERYABLE_DATA_DIR", "mine")
    assert "data folder mine:" in check()
    other = settings.model_copy(update={"run_dir": folder / "other dir"})
    other.run_dir.mkdir()
    command = write_settings(other)
    assert command == f"queryable check --production --env-file '{folder}/other dir/instance.env'"
