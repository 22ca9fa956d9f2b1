"""The generators of clients, a linter, and what compiles the clients, in pinned versions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from local.errors import tail
from local.kafka.jars import JarSet, resolve
from local.kafka.java import find_java
from model.machine.cache import cache_folder
from tests.others.programs import need

PROGRAMS = Path(__file__).with_name("programs")
REDOCLY = "@redocly/cli@2.11.1"
TYPESCRIPT = "typescript@5.6.3"
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
GENERATOR = JarSet(
    "openapi-generator",
    ("org.openapitools:openapi-generator-cli:7.14.0",),
    transitive=False,
    sums=Path(__file__).with_name("openapi-generator-jars.sha256"),
)
# what the generated client needs, in the versions of the generated POM
JAVA_CLIENT = JarSet(
    "java-client",
    (
        "com.fasterxml.jackson.core:jackson-annotations:2.17.1",
        "com.fasterxml.jackson.core:jackson-core:2.17.1",
        "com.fasterxml.jackson.core:jackson-databind:2.17.1",
        "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.17.1",
        "com.google.code.findbugs:jsr305:3.0.2",
        "jakarta.annotation:jakarta.annotation-api:1.3.5",
        "org.openapitools:jackson-databind-nullable:0.2.6",
    ),
    transitive=False,
    sums=Path(__file__).with_name("java-client-jars.sha256"),
)
_TIMEOUT = 900.0  # s: the first time, packages are fetched


def run(folder: Path, *command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the folder. Returns its standard output."""
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
    )
    output = tail(ended.stdout + ended.stderr)
    assert ended.returncode == 0, (
        f"{command[0]} {command[1]} ended with {ended.returncode}:\n{output}"
    )
    return ended.stdout


def npm_program(package: str, program: str) -> Path:
    """A program of an npm package, which is installed in the cache the first time."""
    name = package.strip("@").replace("/", "-")
    target = cache_folder() / "npm" / name
    path = target / "node_modules" / ".bin" / program
    if not path.exists():
        target.mkdir(parents=True, exist_ok=True)
        run(
            target,
            "npm",
            "install",
            "--prefix",
            target,
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            package,
        )
    return path


def generate(document: Path, generator: str, target: Path, **properties: str) -> None:
    """Generate a client with openapi-generator."""
    need("mvn", "javac")  # mvn fetches the jar
    parts = "apis,models,supportingFiles"
    unused = ",".join(
        f"{kind}{part}=false" for kind in ("api", "model") for part in ("Tests", "Docs")
    )
    command = [
        find_java(), "-Xmx512m", "-cp", f"{resolve(GENERATOR, cache_folder())}/*",
        "org.openapitools.codegen.OpenAPIGenerator", "generate",
        "-i", document, "-g", generator, "-o", target, "--global-property", f"{parts},{unused}",
    ]  # fmt: skip
    if properties:
        stated = ",".join(f"{name}={value}" for name, value in properties.items())
        command += ["--additional-properties", stated]
    run(document.parent, *command)
