"""An instance that others reach without a token says so."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from backend.admin.topology import topology_document
from backend.instance.application import Application
from backend.instance.constants import Constants
from backend.instance.settings import Settings
from model.views_file import parse_views
from tests.support.in_process.tokens import SECRET as KEY
from tests.support.security.cluster_secret import SECRET, write_secrets
from tests.support.security.private_file import write_private

VIEWS = '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'


@pytest.mark.parametrize(("host", "is_open"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_it_warns_at_the_start_and_on_the_admin_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, is_open: bool
) -> None:
    views = tmp_path / "views.toml"
    views.write_text(VIEWS)
    settings = Settings(host=host, views=views, data_dir=tmp_path / "data")
    with caplog.at_level(logging.WARNING):
        application = Application(settings, parse_views(VIEWS, str(views)), Constants())
    try:
        warning = f"This instance listens on {host}:8081 without authentication"
        assert (warning in caplog.text) is is_open
        warnings = topology_document(application.instance.context, lambda members: [])["warnings"]
        assert [each["code"] for each in warnings] == (["open-to-others"] if is_open else [])
        assert all(each["text"].startswith(warning) for each in warnings)
    finally:
        application.instance.stop()


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({}, "QUERYABLE_JWT_ISSUER and QUERYABLE_JWT_AUDIENCE are not set: tokens"),
        ({"jwt_issuer": "https://id.example"}, "QUERYABLE_JWT_AUDIENCE is not set: tokens"),
        ({"jwt_issuer": "https://id.example", "jwt_audience": "queryable"}, ""),
    ],
)
def test_it_warns_at_the_start_of_claims_that_are_not_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: dict[str, str], warning: str
) -> None:
    settings = Settings(
        views=tmp_path / "views.toml",
        data_dir=tmp_path / "data",
        auth="jwt",
        jwt_key_file=str(write_private(tmp_path / "key", KEY)),
        cluster_secret_file=str(write_secrets(tmp_path / "cluster-secret", SECRET)),
        **given,
    )
    settings.views.write_text(VIEWS)
    with caplog.at_level(logging.WARNING):
        application = Application(settings, parse_views(VIEWS, "views.toml"), Constants())
    application.instance.stop()
    assert warning in caplog.text
    assert ("are accepted, if they have the scopes" in caplog.text) is bool(warning)
