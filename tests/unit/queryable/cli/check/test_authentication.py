from __future__ import annotations

from pathlib import Path

import pytest

from backend.instance.settings import Settings
from queryable.cli.check.authentication import check_authentication
from queryable.cli.check.findings import OK, WARNING, WRONG
from tests.support.in_process.tokens import SECRET
from tests.support.security.private_file import write_private


@pytest.mark.parametrize(
    ("host", "status", "message"),
    [
        ("127.0.0.1", OK, "off; only this machine can reach 127.0.0.1"),
        ("0.0.0.0", WARNING, "everyone who reaches 0.0.0.0:8081 can read all views"),
        ("10.1.2.3", WARNING, "everyone who reaches 10.1.2.3:8081 can read all views"),
    ],
)
def test_an_instance_that_is_open_to_others(host: str, status: str, message: str) -> None:
    finding = check_authentication(Settings(host=host, auth="off"))
    assert (finding.status, finding.subject, finding.message) == (status, "authentication", message)
    assert bool(finding.action) is (status == WARNING)


def test_what_an_instance_refuses_at_its_start(tmp_path: Path) -> None:
    """tests/unit/backend/security/test_configuration.py has more."""
    key = tmp_path / "key"
    write_private(key, SECRET)
    exposed = write_private(tmp_path / "exposed", SECRET)
    exposed.chmod(0o644)
    given = {"auth": "jwt", "jwt_key_file": str(key), "cluster_secret_file": "unused"}
    given |= {"jwt_issuer": "https://id.example", "jwt_audience": "queryable"}

    def finding(**changed: str) -> tuple[str, str]:
        found = check_authentication(Settings(**{**given, **changed}))
        assert bool(found.action) is (found.status != OK)
        return found.status, found.message

    assert finding() == (OK, "each request needs a token")
    status, message = finding(jwt_issuer="", jwt_audience="")
    assert status == WARNING
    assert "QUERYABLE_JWT_ISSUER and QUERYABLE_JWT_AUDIENCE are not set: tokens that" in message
    status, message = finding(jwt_audience="")
    assert (status, "but QUERYABLE_JWT_AUDIENCE is not set" in message) == (WARNING, True)
    for changed, part in (
        ({"cluster_secret_file": ""}, "needs QUERYABLE_CLUSTER_SECRET_FILE or"),
        ({"jwt_key_file": str(tmp_path / "other")}, "cannot be read"),
        ({"jwt_key_file": str(write_private(tmp_path / "empty", b""))}, "it is empty"),
        ({"jwt_key_file": str(exposed)}, "other users can read or change it"),
        ({"auth": "off"}, "but authentication is off"),
    ):
        status, message = finding(**changed)
        assert status == WRONG
        assert part in message
