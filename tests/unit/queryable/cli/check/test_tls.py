"""What `queryable check` says about the TLS files of an instance."""

from __future__ import annotations

import time
from pathlib import Path

from backend.instance.settings import Settings
from queryable.cli.check.machine import check_tls
from tests.support.security.tls import Authority

DAY = 86_400


def test_missing_and_expiring_certificates_are_found(tmp_path: Path) -> None:
    authority, now = Authority(tmp_path), time.time()
    assert list(check_tls(Settings(), now)) == []

    [finding] = check_tls(Settings(tls_cert_file=authority.ca), now)
    assert "QUERYABLE_TLS_KEY_FILE" in finding.message

    certificate, key = authority.issue("b1", "127.0.0.1", days=100)
    settings = Settings(tls_cert_file=certificate, tls_key_file=key)
    for days, expected in (
        (0, "valid for 100 days"),
        (90, "expires in 10.0"),
        (101, "expired 1.0"),
    ):
        [finding] = check_tls(settings, now + days * DAY)
        assert expected in finding.message
        assert str(certificate) in finding.subject
