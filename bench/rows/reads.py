"""The cost of point reads by proxy and from a backend, compared with their lower bounds (`reads`);
with tokens (`tokens`); and how it grows (`factors`)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench import records
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.records import Table
from bench.references import servers
from bench.report import Target
from bench.stack import Server, Stack
from bench.subject import Baseline, LoadTest, Subject, run_reference
from model.http.answers import Answer

TOKENS = 64
_LIFETIME_S = 24 * 3600
_FACTOR_CONNECTIONS = 64
_PROXY_BASELINES = [
    # coalescing must not delay a single reader
    Baseline("p50_ms", "proxy-one-by-one", {1: Target(1.05, is_ratio=True)}),
    Baseline("p99_ms", "proxy-one-by-one", {64: Target(5.0)}),
    Baseline("cpu_us", "proxy-one-by-one", {16: Target(70.0), 64: Target(34.0), 256: Target(22.0)}),
    Baseline(
        "cpu_us",
        "proxy-to-static",
        {n: Target(bound, is_ratio=True) for n, bound in ((16, 1.4), (64, 1.0), (256, 0.9))},
    ),
]
_BACKEND_BASELINES = [
    Baseline("cpu_us", "asgi-constant", {16: Target(100.0)}),
    Baseline("cpu_us", "rocksdict"),
]


def reads(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Reads of random keys of one backend."""
    backend = stack.filled_backend()
    sample = _sample(backend, stack.table)
    load = partial(LoadTest, workload=Workload(stack.table), plan=plan)
    reference = partial(load, reference=True)

    def proxy(batches: bool) -> list[Server]:
        return [stack.launch_proxy(backend, batches), backend]

    def read_rocksdb(_: int | None) -> Measurement:
        folder = stack.copy_of(backend)
        return run_reference("rocksdb", folder, "get", stack.table.count, plan.gets)

    static = reference("nginx-static", lambda: [servers.static(stack, sample)])
    yield [
        load("proxy", lambda: proxy(True), is_proxy=True, baselines=_PROXY_BASELINES),
        load("proxy-one-by-one", lambda: proxy(False), is_proxy=True),
        load("backend", lambda: [backend], baselines=_BACKEND_BASELINES),
        static,
        reference("proxy-to-static", lambda: servers.front(stack, [static.server])),
        reference("asgi-constant", lambda: [servers.constant(stack, sample)]),
        Subject("rocksdict", read_rocksdb, reference=True),
    ]


def _sample(server: Server, table: Table) -> Answer:
    """The answer to a read, which references send."""
    return server.get(f"{table.path}/{records.key(0).decode()}")


def tokens(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Reads with one of 64 tokens, as from many clients. Two backends have the same records, and
    each has its own nginx. One of them checks tokens."""
    issued = create_tokens(stack.folder_of("."))
    plain = stack.filled_backend()
    checking = stack.restarted_backend(issued.backend, issued.first)
    plain_proxy = stack.launch_proxy(plain)
    proxy = stack.launch_proxy(checking, settings=issued.proxy)
    load = partial(LoadTest, workload=Workload(stack.table), plan=plan)
    checked = partial(
        LoadTest, workload=Workload(stack.table, tokens=issued.file), plan=plan, token=issued.first
    )
    by_proxy, by_backend = (
        [Baseline("cpu_us", f"{row}-no-token", Target(1.15, is_ratio=True))]
        for row in ("proxy", "backend")
    )
    yield [
        load("proxy-no-token", lambda: [plain_proxy, plain], is_proxy=True),
        checked("proxy-token", lambda: [proxy, checking], is_proxy=True, baselines=by_proxy),
        load("backend-no-token", lambda: [plain]),
        checked("backend-token", lambda: [checking], baselines=by_backend),
    ]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A file with a token on each line, the first one, and the settings of servers that check
    them."""

    first: str
    file: Path
    backend: dict[str, str]
    proxy: dict[str, str]


def create_tokens(folder: Path) -> Tokens:
    """Tokens as an identity provider issues them: some claims, signed with RS256; 700 to 800 B."""
    key = rsa.generate_private_key(65537, 2048)
    issued = [_token(key, number) for number in range(TOKENS)]
    file, public, secret = (folder / name for name in ("tokens", "key.pem", "secret"))
    file.write_text("".join(f"{token}\n" for token in issued))
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(32) + "\n")
    secret_setting = {"QUERYABLE_CLUSTER_SECRET_FILE": str(secret)}
    backend = {"QUERYABLE_AUTH": "jwt", "QUERYABLE_JWT_KEY_FILE": str(public), **secret_setting}
    return Tokens(issued[0], file, backend, secret_setting)


def _token(key: rsa.RSAPrivateKey, number: int) -> str:
    now = int(time.time())
    claims = {
        "iss": "https://login.example.com/realms/bench",
        "aud": "queryable-topics",
        "sub": f"8f4e1c52-6f0d-4a3e-9f6b-{number:012d}",
        "azp": f"client-{number}",
        "iat": now,
        "exp": now + _LIFETIME_S,
        "jti": f"bd1f3a70-31c6-4c1e-8f4e-{number:012d}",
        "scope": f"read:{records.VIEW} metrics append:orders",
    }
    return jwt.encode(claims, key, "RS256", {"kid": "bench-2026-11"})


def factors(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Reads by proxy that differ in one factor from `proxy-base`, which has one backend, values of
    100 bytes and 6 partitions. (The row with large values has fewer keys. The row `proxy` of
    `reads` has more keys.) Each table has its own backends, because a view that is not read also
    costs a little."""
    base = Table("base", plan.varied, value_size=100)
    cases = {
        "proxy-base": (base, 1),
        "proxy-backends-2": (base, 2),
        "proxy-backends-4": (base, 4),
        "proxy-values-10000": (Table("large", plan.varied // 10, value_size=10_000), 1),
        "proxy-partitions-64": (replace(base, view="many", partitions=64), 1),
    }
    stack.fill(list(dict.fromkeys(table for table, _ in cases.values())))
    load = partial(LoadTest, plan=plan, connections=[_FACTOR_CONNECTIONS])

    def launch(table: Table, count: int) -> list[Server]:
        backends = stack.launch_backends(count, table)
        return [stack.launch_proxy(backends[0]), *backends]

    def launch_static() -> list[Server]:
        """nginx in front of a static nginx that has one recorded answer of the proxy."""
        sample = _sample(subjects["proxy-backends-2"].server, base)
        return servers.front(stack, [servers.static(stack, sample)])

    static = load("static-beside-2-backends", launch_static, Workload(base), reference=True)
    baselines = {name: [Baseline("cpu_us", "proxy-base")] for name in cases if name != "proxy-base"}
    baselines["proxy-backends-2"] = [Baseline("cpu_us", static.name, Target(1.0, is_ratio=True))]
    by_proxy = partial(load, is_proxy=True)
    subjects = {
        name: by_proxy(
            name, partial(launch, *case), Workload(case[0]), baselines=baselines.get(name, ())
        )
        for name, case in cases.items()
    }
    first, two, *remaining = subjects.values()
    yield [first, two, static, *remaining]
