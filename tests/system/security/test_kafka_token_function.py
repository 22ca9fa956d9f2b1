"""Backends authenticate by OAUTHBEARER with tokens from a function in Python, which is called again
before a token expires, and say why there is no token."""

from __future__ import annotations

import json
import os
from pathlib import Path

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.settings import REPOSITORY
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy
from tests.support.secure_kafka.broker import SecureBroker

LIFE = 20  # s
SIGNER = f"""\
import time
from pathlib import Path

from tests.support.secure_kafka.token_endpoint import signed_token

FOLDER = Path(__file__).parent


def token():
    with (FOLDER / "calls").open("a") as calls:
        calls.write("called\\n")
    text = signed_token((FOLDER / "key.pem").read_bytes(), "oauth", {LIFE})
    return text, time.time() + {LIFE}


def none():
    raise OSError("the login service is down")
"""


def backend_with(function: str, broker: SecureBroker, deploy: Deploy, topic: str) -> Backend:
    """A backend that is not started yet; its folder has the module of the function."""
    table = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauth.token": f"signer:{function}",
        "ssl.ca.location": str(broker.authority.path),
    }
    deployment = deploy(
        views_toml(table, v={"topic": topic, "append": "on"}),
        bootstrap_servers=broker.address("OAUTHBEARER"),
        start_timeout="8" if function == "none" else "30",
    )
    (deployment.folder / "signer.py").write_text(SIGNER)
    broker.tokens.write_key(deployment.folder / "key.pem")
    backend = deployment.new()
    backend.settings["PYTHONPATH"] = os.pathsep.join((str(deployment.folder), str(REPOSITORY)))
    return backend


def append(backend: Backend, topic: str, value: str) -> Response:
    body = json.dumps({"key": "k", "value": value}).encode()
    with Client(backend.port) as client:
        return client.request("POST", f"/topics/{topic}/records", body)


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def test_a_backend_reads_and_writes_with_tokens_of_a_function(
    secure_broker: SecureBroker, deploy: Deploy
) -> None:
    topic = "by-token-function"
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic(topic, 1)])
    backend = backend_with("token", secure_broker, deploy, topic)
    folder = Path(backend.settings["PYTHONPATH"].split(os.pathsep)[0])
    backend.launch()
    settle([backend])  # kafka-python's member has joined the group
    for value in ("first token", "renewed token"):
        backend.wait(lambda v=value: append(backend, topic, v).status == 200, "a record")
        backend.wait(
            lambda v=value: backend.get(key_path("v", "k")).json().get("value") == v, "the record"
        )
        called = calls(folder)
        backend.wait(lambda n=called: calls(folder) > n, "a renewal", 2 * LIFE)
    assert "no OAuth token" not in backend.log()
    assert "Traceback" not in backend.log()


def test_a_function_without_a_token_ends_the_start_with_its_reason(
    secure_broker: SecureBroker, deploy: Deploy
) -> None:
    backend = backend_with("none", secure_broker, deploy, "t")
    backend.launch()
    assert backend.wait_end() > 0
    log = backend.log()
    assert "no OAuth token from signer:none ([kafka] sasl.oauth.token)" in log
    assert "OSError: the login service is down" in log
    assert "Traceback" not in log


def test_a_function_that_is_not_there_ends_the_start(
    secure_broker: SecureBroker, deploy: Deploy
) -> None:
    backend = backend_with("missing", secure_broker, deploy, "t")
    backend.launch()
    assert backend.wait_end() > 0
    assert "[kafka] sasl.oauth.token: signer:missing cannot be imported" in backend.log()
    assert "Traceback" not in backend.log()
