"""/openapi.json against real instances: its examples have the documented status, and thousands of
requests that schemathesis generates from it get only documented answers."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CheckContext
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from backend.http.openapi.skeleton import example_keys
from model.formats.registry import KEY_CODECS
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Client, Response, raw
from tests.support.deployment import settle, views_toml
from tests.support.in_process import protobuf_examples as protobuf
from tests.support.in_process.avro_examples import ORDER, binary
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 2
NOW = int(time.time() * 1000) - 60_000
STREAMS = "/changes"
STATED = ("Partition", "Offset", "Lag", "Staleness", "Served-By", "Topology-Epoch", "Location",
          "Retry-After", "Allow", "ETag", "Schema-Fingerprint", "Schema-Id")  # fmt: skip
# headers of the resource, not of the instance or the time
COMPARED = ("Content-Type", "Partition", "Offset", "Lag", "Topology-Epoch", "Retry-After", "Allow",
            "ETag", "Vary", "Cache-Control", "Schema-Fingerprint", "Schema-Id")  # fmt: skip
# routes about the instance or the moment: only the names of their fields are compared
OF_THE_MOMENT = ("/instance", "/health/live", "/health/ready", "/admin/topology.json",
                 "/admin/history", "/admin/groups", "/admin/views/{view}/replicas",
                 "/topics/{topic}/records")  # fmt: skip
# nginx has its own answers to these: see tests/system/proxy/test_metrics.py
OF_NGINX_ITSELF = ("/metrics", "/metrics/targets")
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# the number of requests per operation and mode depends on the time
EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", "5"))
ROUND = 5
SECONDS = float(os.environ.get("OPENAPI_SECONDS", "6"))


def example_key(of: str) -> bytes:
    return KEY_CODECS[of].from_text(str(example_keys()[of]).encode())


@pytest.fixture(scope="module")
def backends(
    module_deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[Backend]]:
    views: dict[str, dict[str, str]] = {}

    def add(name: str, tail: bytes, stored: bytes, **fields: str) -> None:
        topic = make_topic(PARTITIONS)
        key = example_key(fields.get("key", "string"))
        at = partition_of("murmur2")(key, PARTITIONS)
        writer.send_timed(topic, [(key + tail, stored, NOW, at)])
        views[name] = {"topic": topic, **fields}

    entry = b'{"amount": 7}'
    add("orders", b"", entry, path="/orders", append="on")
    add("memory", b"", b"\xff", value="bytes", persistence="memory")
    for of in example_keys():
        add(f"by_{of}", b"", example_key("int64"), key=of, value="int64")
    start = struct.pack(">qi", NOW, 0)
    add("windows", start, entry, store="window", window_size="1m", path="/windows")
    add("series", start[:8], entry, store="window", window_key="topic", retention="30d")
    add("sessions", struct.pack(">qq", NOW + 1, NOW), entry, store="session", key="int32")
    add("versions", b"", entry, store="versioned", path="/versions", retention="30d")
    bloom = "backend.storage.bloom_filter:BloomFilter"
    add("own", b"", entry, store=bloom, persistence="memory", path="/own")
    schema = tmp_path_factory.mktemp("schemas") / "order.avsc"
    schema.write_text(json.dumps(ORDER))
    order = binary(ORDER, {"id": 1, "price": 2.5, "note": None})
    add("avro", b"", order, value="avro", value_schema=str(schema))
    shop = schema.with_name("shop.desc")
    shop.write_bytes(protobuf.DESCRIPTORS)
    bill = protobuf.order(order_id=1)
    fields = {"value_schema": str(shop), "value_message": "shop.Order"}
    add("protobuf", b"", bill, value="protobuf", **fields)
    backends = module_deploy(views_toml(**views)).start(2)
    settle(backends)
    yield backends
    for backend in backends:
        assert "Traceback" not in backend.log()


@pytest.fixture(scope="module")
def document(backends: list[Backend]) -> Any:
    documents = [backend.get("/openapi.json") for backend in backends]
    assert documents[0].body == documents[1].body
    return documents[0].json()


def is_command(path: str, method: str) -> bool:
    return path.startswith("/admin/") and method == "post"


def examples(document: Any) -> Iterator[tuple[str, str, str, bytes | None, int]]:
    """Operation, method, target, body and status: with the required parameters, then also with each
    of the other examples. Commands are left out: they change the deployment, and have tests of
    their own."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if is_command(path, method):
                continue
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            raw = body.get("examples", {}).get("200", {}).get("value")
            content = None if raw is None else json.dumps(raw).encode()
            usual: dict[tuple[str, str], Any] = {}
            others: list[tuple[str, str, Any, int]] = []
            for parameter in operation.get("parameters", []):
                of = parameter["in"], parameter["name"]
                for status, example in parameter.get("examples", {}).items():
                    if parameter["required"] and status == "200":
                        usual[of] = example["value"]
                    else:
                        others.append((*of, example["value"], int(status)))
            needed = [p for p in operation.get("parameters", []) if p["required"]]
            assert len(usual) == len(needed), (path, "a required parameter without an example")
            least = min(int(status) for status in operation["responses"])
            for *of, value, status in [("", "", "", least), *others]:
                given_ = {**usual, tuple(of): value}
                target = path
                for (where, name), each in given_.items():
                    if where == "path":
                        target = target.replace(f"{{{name}}}", quote(str(each), safe=""))
                query = {name: v for (where, name), v in given_.items() if where == "query"}
                yield path, method, f"{target}?{urlencode(query)}", content, status


def ask(backend: Backend | Nginx, method: str, target: str, body: bytes | None) -> Response:
    if not target.partition("?")[0].endswith(STREAMS):
        with Client(backend.port) as client:
            return client.request(method.upper(), target.rstrip("?"), body)
    connection = http.client.HTTPConnection("127.0.0.1", backend.port, timeout=10)
    try:
        connection.request(method.upper(), target.rstrip("?"), body)
        answer = connection.getresponse()
        size = 4 if answer.status == 200 else None  # of an endless stream
        return Response(answer.status, answer.headers, answer.read(size))
    finally:
        connection.close()


def test_every_example_has_its_documented_status(backends: list[Backend], document: Any) -> None:
    covered = set()
    wrong: list[str] = []
    for path, method, target, body, status in examples(document):
        stated = document["paths"][path][method]["responses"][str(status)]
        if "$ref" in stated:
            stated = document["components"]["responses"][stated["$ref"].split("/")[-1]]
        for backend in backends:
            answer = ask(backend, method, target, body)
            unsaid = {name for name in STATED if answer.headers[name] is not None}
            kind = answer.headers["Content-Type"]
            if (
                answer.status != status
                or (method != "head" and kind not in stated.get("content", {None: {}}))
                or not unsaid <= stated["headers"].keys()
            ):
                wrong.append(f"{method} {target}: {status} {answer} {answer.headers.items()}")
        covered.add((path, method))
    assert not wrong, "\n".join(wrong)
    assert covered == {
        (path, method)
        for path, item in document["paths"].items()
        for method in item
        if not is_command(path, method)
    }


@pytest.fixture(scope="module")
def nginx(backends: list[Backend], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    addresses = ",".join(f"127.0.0.1:{backend.port}" for backend in backends)
    with Nginx(tmp_path_factory.mktemp("nginx") / "prefix", addresses) as nginx:
        nginx.wait_for_map(backends[0].epoch)
        yield nginx


def comparable_parts(path: str, method: str, answer: Response) -> tuple[Any, ...]:
    """The parts of an answer to compare: for routes about the moment, only the names of fields."""
    body: Any = answer.body
    if answer.status == 200 and path in OF_THE_MOMENT and method != "head":
        if answer.headers["Content-Type"] == "application/json":
            body = sorted(answer.json())
        else:
            body = {line.partition(b"{")[0].partition(b" ")[0] for line in body.splitlines()}
    return answer.status, *(answer.headers[name] for name in COMPARED), body


def test_every_route_answers_the_same_through_nginx(
    backends: list[Backend], nginx: Nginx, document: Any
) -> None:
    different: list[str] = []
    covered = set()
    for path, method, target, body, _ in examples(document):
        covered.add((path, method))
        if path in OF_NGINX_ITSELF:
            continue
        for _ in range(5):  # a record that was appended may be applied between two answers
            direct = [
                comparable_parts(path, method, ask(backend, method, target, body))
                for backend in backends
            ]
            proxied = comparable_parts(path, method, ask(nginx, method, target, body))
            if proxied in direct:
                break
        else:
            different.append(f"{method} {target}: {proxied}, directly {direct}")
    assert not different, "\n".join(different)
    assert covered == {
        (path, method)
        for path, item in document["paths"].items()
        for method in item
        if not is_command(path, method)
    }


def test_nginx_rejects_internal_routes(backends: list[Backend], nginx: Nginx) -> None:
    [backend, _] = backends
    for path in ("/internal/scan", "/internal/batch"):
        refused = ask(nginx, "post", path, b"{}")
        assert (refused.status, refused.code) == (404, "no-such-resource")
        assert ask(backend, "post", path, b"{}").code == "bad-request"
    assert ask(nginx, "get", "/proxy/health", None).status == 200
    assert ask(backend, "get", "/proxy/health", None).status == 404
    for target in ("/orders/Zürich", "/views?x=é", "/api/v1/kv/orders?from=é"):
        for port in (nginx.port, backend.port):
            answer = raw(port, f"GET {target} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
            assert (answer.status, answer.code) == (400, "bad-request")


@schemathesis.check
def only_503_of_the_server_errors(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    if response.status_code < 500:
        return
    if response.status_code == 503:
        assert response.headers["retry-after"]
    else:
        # KIQR's own code
        is_documented = response.status_code == 500 and case.path.startswith("/api/v1/")
        assert is_documented, (response.status_code, response.text)
        kiqrs = ("wrong-store", "unfit-serde", "key-undecodable", "bad-parameter")
        assert response.json()["code"] in kiqrs, response.text


CHECKS = [
    only_503_of_the_server_errors,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


class Requester:
    """Sends generated requests of an operation, at least one and as many as there is time for, to
    the instances in turn. Checks their answers."""

    def __init__(self, ports: list[int]) -> None:
        self.session = requests.Session()
        self.statuses: Counter[int] = Counter()
        self.seen: Counter[str] = Counter()
        self._bases = itertools.cycle(f"http://127.0.0.1:{port}" for port in ports)

    def ask(self, operation: Any, mode: GenerationMode, seconds: float) -> None:
        """Works in rounds, because generating the requests takes longer than their answers."""
        deadline = time.monotonic() + seconds
        for number in range(0, EXAMPLES, ROUND):
            if number and time.monotonic() > deadline:
                return
            self._round(operation, mode, number, deadline)

    def _round(self, operation: Any, mode: GenerationMode, number: int, deadline: float) -> None:
        failed = False

        @seed(number)
        @settings(
            max_examples=min(ROUND, EXAMPLES),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def run(case: schemathesis.Case) -> None:
            nonlocal failed
            # a failed request is repeated, even after the time is over
            if self.seen[operation.label] and time.monotonic() > deadline and not failed:
                return
            answer = case.call(base_url=next(self._bases), session=self.session)
            self.statuses[answer.status_code] += 1
            self.seen[operation.label] += 1
            failed = True
            case.validate_response(answer, checks=CHECKS)
            failed = False

        run()


def test_every_answer_conforms_to_the_document(backends: list[Backend], document: Any) -> None:
    operations = [
        result.ok()
        for result in schemathesis.openapi.from_dict(document).get_all_operations()
        if not result.ok().path.endswith(STREAMS)  # these answers are endless
    ]
    requester = Requester([backend.port for backend in backends])
    failures: list[str] = []
    turns = [(operation, mode) for mode in MODES for operation in operations]
    for operation, mode in turns:
        try:
            requester.ask(operation, mode, SECONDS / len(turns))
        except Unsatisfiable:
            pass  # without parameters there is no invalid request
        except Exception as e:
            failures.append(f"{operation.label}, {mode}: {e} {getattr(e, 'exceptions', '')}")
    requester.session.close()
    statuses = requester.statuses
    assert not failures, "\n\n".join(failures)
    print(dict(statuses))
    # on a slow machine: one each
    assert sum(statuses.values()) >= len(operations), statuses
    assert statuses.keys() >= {200, 400, 404}, statuses
    assert len(requester.seen) == len(operations)


def test_undocumented_methods_are_405(backends: list[Backend], document: Any) -> None:
    known = {path: set(item) for path, item in document["paths"].items()}
    for path, _, target, _, status in examples(document):
        if status >= 300:
            continue
        for method in {"get", "post", "put", "patch", "delete"} - known[path]:
            answer = ask(backends[0], method, target.partition("?")[0], b"{}")
            assert (answer.status, answer.code) == (405, "method-not-allowed"), (method, target)
            assert known[path] <= set(answer.headers["Allow"].lower().split(", "))
