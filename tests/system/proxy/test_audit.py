"""What nginx itself refuses is in its audit log, without keys."""

from __future__ import annotations

import json
from typing import Any

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Answer, Cluster, always
from tests.system.proxy.conftest import KEY, StartNginx


def audit_log(nginx: Nginx, count: int) -> list[dict[str, Any]]:
    """Waits for so many lines."""
    path = nginx.prefix / "logs" / "audit.log"
    wait_until(lambda: path.read_text().count("\n") >= count, 10, f"{count} lines")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_refusals(cluster: Cluster, start_nginx: StartNginx) -> None:
    cluster.more = {"quotas": {"fnv": "1/m"}}
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    limits = nginx.prefix / "limits.conf"
    text = limits.read_text()
    limits.unlink()  # a link to the repository's
    limits.write_text(
        text.replace('127.0.0.0/8 "";', "127.0.0.0/8 yes;").replace("rate=200r/s", "rate=1r/m")
        .replace("burst=100", "burst=4")
    )  # fmt: skip
    nginx.reload()
    wait_until(lambda: nginx.epochs() != [None, None], 10, "the topology")
    headers = {"X-Forwarded-For": '192.0.2.9"', "X-Request-Id": "of the client"}
    with nginx.client() as client:
        assert [client.get("/fnv/secret").status for _ in range(2)] == [200, 429]
        site = client.request(
            "GET", "/proxy/metrics", headers={**headers, "Sec-Fetch-Site": "cross-site"}
        )
        assert site.code == "cross-site"
        host = client.request("GET", "/proxy/health", headers={"Host": "evil.example"})
        assert host.code == "host-not-allowed"
        answers = [client.get("/views/words/count?secret").status for _ in range(8)]
        assert answers[-1] == 429
        # regression: this was taken for a read of a key, which has a higher limit
        answers.append(client.get("/%76iews/words/top").status)
        assert answers[-1] == 429
        assert client.get("/words/key").status == 200
    found = audit_log(nginx, 3 + answers.count(429))
    assert {each["event"] for each in found} == {"refused"}
    assert {(each["instance"], each["client"]) for each in found} == {("nginx", "127.0.0.1")}
    by_code = {each["code"]: each for each in found}
    assert {code: each["status"] for code, each in by_code.items()} == {
        "quota-exceeded": 429, "cross-site": 403, "host-not-allowed": 403, "too-many-requests": 429,
    }  # fmt: skip
    assert by_code["quota-exceeded"]["name"] == "fnv"
    assert by_code["cross-site"]["claimed_client"] == '192.0.2.9"'
    assert by_code["cross-site"]["claimed_id"] == "of the client"
    assert "secret" not in json.dumps(found)


def test_what_a_client_claims_is_limited(nginx: Nginx) -> None:
    claims = ("x" * 8000 + "y" * 100, "a\xff", "\xff" + "b" * 20, "", "c" * 200)
    with nginx.client() as client:
        for claim in claims:
            headers = {"Sec-Fetch-Site": "cross-site", "X-Forwarded-For": claim}
            headers["X-Request-Id"] = claim
            assert client.request("GET", "/proxy/health", headers=headers).code == "cross-site"
    found = audit_log(nginx, len(claims))
    expected = sorted(["x" * 100 + "y" * 100, "a?", "?" + "b" * 20, "", "c" * 200])
    assert sorted(each["claimed_client"] for each in found) == expected
    assert sorted(each["claimed_id"] for each in found) == expected


def test_what_instances_refuse_and_what_is_answered_is_not_in_it(
    cluster: Cluster, nginx: Nginx
) -> None:
    for status in (200, 401, 403, 404, 429):
        for backend in cluster.backends:
            backend.behave = always(Answer(status))
        with nginx.client() as client:
            assert client.get(f"{KEY}?stale=allow").status == status
            assert client.get(KEY).status == status
    with nginx.client() as client:
        assert client.get("/internal/scan").status == 404
        assert client.get("/proxy/health", **{"Sec-Fetch-Site": "cross-site"}).status == 403
    [line] = audit_log(nginx, 1)
    assert line["code"] == "cross-site"
