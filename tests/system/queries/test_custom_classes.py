"""The example of docs/custom-classes.md: its module, its views, and the answers that it shows."""

from __future__ import annotations

import json
import os

from tests.support.client import Client, Response
from tests.support.deployment import settle
from tests.support.docs_examples import BLOCK, ROOT
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

BLOCKS = BLOCK.findall((ROOT / "docs" / "custom-classes.md").read_text())
ADDRESS, OTHER = bytes((10, 0, 0, 7)), bytes((9, 255, 0, 1))


def block(kind: str) -> str:
    [text] = [text for each, text in BLOCKS if each == kind]
    return str(text)


def test_the_example(deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> None:
    topic = make_topic(2)
    values = (b"1;200", b"2;800", b"3;900", b"4;1500")
    writer.send(topic, [*((ADDRESS, value) for value in values), (OTHER, b"9;9")])
    unreadable = bytes((8, 0, 0, 1))
    writer.send(topic, [(ADDRESS + b"x", b"1;1"), (unreadable, b"no usage")])  # dead letters
    deployment = deploy(block("toml").replace('topic = "usage"', f'topic = "{topic}"'))
    (deployment.folder / "traffic.py").write_text(block("py"))
    started = [deployment.new() for _ in range(2)]
    for backend in started:
        backend.settings["PYTHONPATH"] = os.pathsep.join((str(deployment.folder), str(ROOT)))
        backend.launch()
    settle(started)
    nginx = deployment.proxy()
    lines = block("http").splitlines()
    examples = list(zip(lines[::2], lines[1::2], strict=True))
    assert len(examples) == 4
    for port in (started[0].port, started[1].port, nginx.port):
        with Client(port) as client:
            for request, shown in examples:
                method, target = request.split()
                answer = client.request(method, target)
                assert answer.status == 200, (request, answer.body)
                found, expected = json.loads(answer.body), json.loads(shown)
                if "next" in expected:
                    assert isinstance(found.pop("next"), str)
                    del expected["next"]
                if "/top" in target:  # the example has no such record
                    assert found.pop("unreadable") == 1
                assert found == expected, request
            assert refusal(client, "/views/usage/keys/10.0.0") == "key-undecodable"
            assert refusal(client, "/views/usage/keys/10.0.0.9") == "key-not-found"
            assert refusal(client, "/views/usage/keys/8.0.0.1") == "value-unreadable"
            found = client.get("/views/usage/keys/CgAABw?encoding=base64url").json()
            assert found["key"] == "10.0.0.7"
            body = json.dumps({"keys": ["10.0.0.7", "10.0.0.8", 7]}).encode()
            items = client.request("POST", "/views/usage/batch", body).json()["items"]
            assert [item["status"] for item in items] == [200, 404, 400]
            described = client.get("/views/usage").json()
            assert described["key"] == "traffic:Ipv4"
            assert described["routed_encodings"] == ["base64url"]
            assert client.get("/openapi.json").status == 200
    dead = sum(p["dead_letters"] for b in started for p in b.partitions("usage"))
    assert dead == 2


def refusal(client: Client, target: str) -> str:
    answer: Response = client.get(target)
    return answer.code


def test_a_class_that_is_missing_is_an_error_at_the_start(
    deploy: Deploy, make_topic: MakeTopic
) -> None:
    toml = f'[views.v]\ntopic = "{make_topic(1)}"\nkey = "not_there:Key"\nvalue = "json"\n'
    backend = deploy(toml).new().launch()
    assert backend.wait_end() != 0
    assert (
        "views.toml, [views.v], key: not_there:Key cannot be imported: No module" in backend.log()
    )
    assert "Traceback" not in backend.log()
