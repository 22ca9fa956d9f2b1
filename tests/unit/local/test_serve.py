"""`queryable serve`: settings, messages and edits. tests/system/queryable/test_wheel.py runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from local import serve
from local.errors import LocalError
from local.serve import (
    ViewsFileWatcher,
    default_application_id,
    require_sources,
    stack_settings,
    with_option_names,
    without_missing_nginx,
    without_nginx_lines,
)
from local.spark_views import declared_views
from local.stack import nginx
from local.stack.nginx import check_configuration, lay_out, proxy_files
from local.stack.readiness import waiting_text

VIEWS = '[views.a]\ntopic = "a"\nkey = "string"\nvalue = "json"\n'
DERIVED = '[views.b.derive]\nfrom = "a"\nfields = { n = "int 0..9" }\nkey = "n"\ncount = true\n'


def test_each_data_folder_is_a_deployment_of_its_own(tmp_path: Path) -> None:
    first, second = (default_application_id(tmp_path / name) for name in ("a", "b"))
    assert first != second
    assert first == default_application_id(tmp_path / "x" / ".." / "a")
    assert len(first) < 100
    views = tmp_path / "views.toml"
    settings = stack_settings(views, "k:1", {"run_dir": tmp_path / "a", "instances": None})
    assert settings.application_id == first
    assert not settings.has_demo, "no demo data, whatever the environment says"
    named = stack_settings(views, "k:1", {"application_id": "mine", "run_dir": tmp_path})
    assert named.application_id == "mine"


def test_the_environment_fills_in_what_no_option_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYABLE_APPLICATION_ID", "theirs")
    monkeypatch.setenv("QUERYABLE_DEMO_DATA", "yes")
    monkeypatch.setenv("QUERYABLE_PROXY_PORT", "7")
    settings = stack_settings(tmp_path / "v", "k:1", {"proxy_port": None, "backend_port": 9})
    assert (settings.application_id, settings.proxy_port, settings.backend_port) == ("theirs", 7, 9)
    assert not settings.has_demo


def test_a_wrong_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYABLE_BACKEND_PORT", "many")
    with pytest.raises(LocalError, match=r"--backend-port: .*integer.*'many'"):
        serve.serve(tmp_path / "v", "k:1", {}, ())


def test_messages_name_options() -> None:
    text = with_option_names("choose another port with QUERYABLE_PROXY_PORT or QUERYABLE_RUN_DIR.")
    assert text == "choose another port with --port or --data-dir."


def test_an_edit_is_reported_once(tmp_path: Path) -> None:
    views = tmp_path / "views.toml"
    views.write_text(VIEWS)
    reported: list[str] = []
    watcher = ViewsFileWatcher(views, reported.append)

    def edit(text: str) -> list[str]:
        views.write_text(text)
        reported.clear()
        for _ in range(3):
            watcher.check()
        return reported.copy()

    watcher.check()
    assert reported == []
    [wrong] = edit(VIEWS.replace('"json"', '"jsno"'))
    assert wrong.startswith("views.toml was edited and is wrong: ")
    assert "line 4" in wrong
    [right] = edit(VIEWS + VIEWS.replace("views.a", "views.other"))
    assert "start again" in right
    views.unlink()
    reported.clear()
    watcher.check()
    assert "cannot read the views" in reported[0]


def test_pyspark_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = tmp_path / "views.toml"
    views.write_text(VIEWS + DERIVED)
    assert serve._spark_views(views) == ("b",)

    def missing(_: Path) -> None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr(serve, "declared_views", missing)
    with pytest.raises(LocalError, match=r"Spark derives b, and pyspark is not .*server,spark\]"):
        serve._spark_views(views)


def test_a_source_that_does_not_exist_is_named(tmp_path: Path) -> None:
    views = tmp_path / "views.toml"
    views.write_text(DERIVED.replace('"a"', '"clicks"'))
    derived = declared_views(views)
    require_sources(derived, {"clicks"})
    with pytest.raises(LocalError, match=r"b from the topic clicks, .* did you mean clcks"):
        require_sources(derived, ["clcks", "x"])


def ready_document(
    *partitions: dict[str, object], without: tuple[dict[str, object], ...] = ()
) -> bytes:
    return json.dumps({"waiting": partitions, "without_partitions": without}).encode()


def test_what_backends_wait_for() -> None:
    document = ready_document
    first = document(
        {"view": "b", "partition": 0, "goal": 1500, "position": 200},
        {"view": "a", "partition": 0, "state": "opening"},
    )
    second = document({"view": "b", "partition": 1, "goal": 100, "position": 90})
    assert waiting_text([first, second]) == ("catching up; records left to read: a: 0, b: 1,310")
    assert waiting_text([document()]) == ""
    # both replicas of a partition read the same records
    replicas = [{"view": "b", "partition": 0, "goal": 600, "position": n} for n in (0, 100)]
    assert waiting_text([document(each) for each in replicas]) == (
        "catching up; records left to read: b: 600"
    )


def test_what_partitions_that_wait_for_a_schema_wait_for_is_said() -> None:
    waiting = {"view": "b", "partition": 0, "goal": 9, "position": 0, "waiting_for": "schema 7"}
    others = [{**waiting, "partition": 1}, {"view": "a", "partition": 0, "waiting_for": None}]
    documents = [ready_document(waiting), ready_document(*others)]
    assert waiting_text(documents) == (
        "catching up; records left to read: a: 0, b: 18\n"
        "view b, partitions 0, 1: the next record waits: schema 7"
    )


def test_a_topic_that_is_gone_is_named() -> None:
    new = {"view": "b", "topic": "bs", "had_partitions": False}
    gone = {"view": "a", "topic": "as", "had_partitions": True}
    documents = [ready_document(without=(new, gone)), ready_document(without=(gone,))]
    assert waiting_text(documents).startswith(
        "view a: its topic as had partitions and has none now: it was deleted, or "
    )
    assert "bs" not in waiting_text(documents)


def test_nginx_without_its_lua_module_is_named(tmp_path: Path) -> None:
    command = lay_out(tmp_path / "nginx", 9)
    check_configuration(command)
    configuration = tmp_path / "nginx" / "nginx.conf"
    text = configuration.read_text()
    configuration.unlink()
    configuration.write_text(text.replace("include /etc/nginx/modules-enabled", "#"))
    with pytest.raises(LocalError, match=r"no Lua module.*apt install nginx libnginx-mod-http-lua"):
        check_configuration(command)
    configuration.write_text(text.replace("server_tokens off;", "server_tokens maybe;"))
    with pytest.raises(LocalError, match="invalid value"):
        check_configuration(command)


def test_without_nginx_the_first_backend_has_the_port_for_clients(tmp_path: Path) -> None:
    options = {"without_nginx": True, "proxy_port": 5000, "backend_port": 6000, "instances": 3}
    settings = stack_settings(tmp_path / "v", "k:1", options)
    assert settings.url == "http://127.0.0.1:5000"
    assert settings.backend_ports == [5000, 6000, 6001]
    said = "\n".join(without_nginx_lines(settings))
    assert "use http://127.0.0.1:5000. These backends answer the same: " in said
    assert "http://127.0.0.1:6000, http://127.0.0.1:6001" in said
    alone = stack_settings(tmp_path / "v", "k:1", {**options, "instances": 1})
    assert alone.backend_ports == [5000]
    assert "is the only backend" in "\n".join(without_nginx_lines(alone))
    assert not list(without_nginx_lines(stack_settings(tmp_path / "v", "k:1", {})))


@pytest.mark.parametrize("said", [None, "yes", "no"])
def test_nginx_that_is_missing_is_left_out_unless_the_settings_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setattr(nginx.shutil, "which", lambda *_, **__: None)
    if said is not None:
        monkeypatch.setenv("QUERYABLE_WITHOUT_NGINX", said)
    reported: list[str] = []
    monkeypatch.setattr(serve, "report", reported.append)
    settings = without_missing_nginx(stack_settings(tmp_path / "v", "k:1", {}))
    assert settings.without_nginx is (said != "no")
    if said is None:
        assert reported == [
            "nginx is not installed, so it is not used (--without-nginx): http://127.0.0.1:8080 is "
            "a backend"
        ]
    else:
        assert reported == []


def test_nginx_that_is_there_is_used(tmp_path: Path) -> None:
    settings = stack_settings(tmp_path / "v", "k:1", {})
    assert without_missing_nginx(settings) is settings


def test_the_files_of_nginx_are_those_of_the_checkout() -> None:
    assert os.path.samefile(proxy_files() / "proxy", Path(serve.__file__).parents[1] / "proxy")
