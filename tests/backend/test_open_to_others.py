"""An instance that others reach without a token says so."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from backend.application import Application
from backend.http.admin.topology import topology_document
from backend.settings import Settings
from model.views_file import parse_views

VIEWS = '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'


@pytest.mark.parametrize(("host", "is_open"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_it_warns_at_the_start_and_on_the_admin_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, is_open: bool
) -> None:
    views = tmp_path / "views.toml"
    views.write_text(VIEWS)
    settings = Settings(host=host, views=views, data_dir=tmp_path / "data")
    with caplog.at_level(logging.WARNING):
        application = Application(settings, parse_views(VIEWS, str(views)))
    try:
        warning = f"This instance listens on {host}:8081 without authentication"
        assert (warning in caplog.text) is is_open
        warnings = topology_document(application.instance.context, lambda members: [])["warnings"]
        assert [each["code"] for each in warnings] == (["open-to-others"] if is_open else [])
        assert all(each["text"].startswith(warning) for each in warnings)
    finally:
        application.instance.stop()
