"""Clients that generators make from /openapi.json of a running instance compile, and read a key,
pages and a batch through nginx."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from local.kafka.jars import resolve
from local.kafka.java import find_java
from model.machine.cache import cache_folder
from model.partitioner import partition_of
from tests.generated_clients.tools import (
    JAVA_CLIENT,
    OAPI_CODEGEN,
    PROGRAMS,
    REDOCLY,
    TYPESCRIPT,
    generate,
    npm_program,
    run,
)
from tests.others.programs import need
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 2
TIME = 1_700_000_000_123  # more than 32 bits
ROWS = {"a/b ü": {"amount": 1.5}, "k1": {"amount": 7}, "k2": {"list": [1, None, "x"]}}
READ = {
    "point": ["a/b ü", ROWS["a/b ü"]],
    "page": [[key, value, TIME] for key, value in ROWS.items()],
    "sizes": [2, 1],
    "batch": [["k1", 200, ROWS["k1"]], ["missing", 404, None]],
}


@pytest.fixture(scope="module")
def url(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> str:
    """The URL of nginx, in front of two instances with views of all kinds."""
    topic = make_topic(PARTITIONS)
    rows = [(key.encode(), json.dumps(value).encode()) for key, value in ROWS.items()]
    partition = partition_of("murmur2")
    writer.send_timed(topic, [(k, v, TIME, partition(k, PARTITIONS)) for k, v in rows])
    views = {
        "orders": {"topic": topic, "path": "/orders", "append": "on"},
        "numbers": {"topic": make_topic(), "key": "int64", "value": "int64"},
        "windows": {"topic": make_topic(), "store": "window", "window_size": "1m", "path": "/w"},
        "sessions": {"topic": make_topic(), "store": "session"},
        "versions": {"topic": make_topic(), "store": "versioned", "retention": "30d"},
    }
    deployment = module_deploy(views_toml(**views))
    deployment.start(2)
    return f"http://127.0.0.1:{deployment.proxy().port}"


@pytest.fixture(scope="module")
def document(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with /openapi.json."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=10) as answer:
        path.write_bytes(answer.read())
    return path


def read(output: str) -> Any:
    """What the program of a client has read: the last line of its output."""
    return json.loads(output.splitlines()[-1])


def test_redocly_accepts_the_document(document: Path) -> None:
    need("npm", "node")
    run(document.parent, npm_program(REDOCLY, "redocly"), "lint", document)


def test_the_typescript_client_of_openapi_generator(
    url: str, document: Path, tmp_path: Path
) -> None:
    need("npm", "node")
    generate(document, "typescript-fetch", tmp_path / "generated")
    shutil.copy(PROGRAMS / "read_keys.ts", tmp_path)
    options = ["--strict", "--target", "es2020", "--module", "commonjs", "--lib", "es2020,dom"]
    run(tmp_path, npm_program(TYPESCRIPT, "tsc"), *options, "read_keys.ts")
    assert read(run(tmp_path, "node", "read_keys.js", url)) == READ


def test_the_java_client_of_openapi_generator(url: str, document: Path, tmp_path: Path) -> None:
    generate(document, "java", tmp_path, library="native")
    shutil.copy(PROGRAMS / "ReadKeys.java", tmp_path)
    jars = resolve(JAVA_CLIENT, cache_folder())
    sources = [str(path) for path in (tmp_path / "src" / "main" / "java").rglob("*.java")]
    run(tmp_path, "javac", "-d", "classes", "-cp", f"{jars}/*", "ReadKeys.java", *sources)
    classes = os.pathsep.join(("classes", f"{jars}/*"))
    assert read(run(tmp_path, find_java(), "-cp", classes, "ReadKeys", url)) == READ


@pytest.fixture
def go_module(tmp_path: Path) -> Path:
    """A folder with the Go programs, which import clients that are not there yet."""
    need("go")
    return shutil.copytree(PROGRAMS / "go", tmp_path / "go")


def test_the_go_client_of_openapi_generator(url: str, document: Path, go_module: Path) -> None:
    target = go_module / "openapi_generator" / "generated"
    generate(document, "go", target, packageName="generated", withGoMod="false")
    assert read(run(go_module, "go", "run", "./openapi_generator", url)) == READ


def test_the_go_client_of_oapi_codegen(url: str, document: Path, go_module: Path) -> None:
    target = go_module / "oapi_codegen" / "generated"
    target.mkdir()
    run(
        go_module, "go", "run", OAPI_CODEGEN, "-generate", "types,client", "-package", "generated",
        "-o", target / "client.go", document,
    )  # fmt: skip
    assert read(run(go_module, "go", "run", "./oapi_codegen", url)) == READ
