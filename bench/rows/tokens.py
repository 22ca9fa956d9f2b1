"""The cost of a read with a token, compared with the same read without one.

Two backends have the same records, and each has its own nginx. One of them checks tokens. A service
that reads for itself has one token; in front of many clients, each read has one of many.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench import records
from bench.load import Workload
from bench.plan import Plan
from bench.report import Comparison, Row, Target, compare
from bench.rows.reads import sample_answer
from bench.stack import Server, Stack
from bench.subject import Served

MANY = 64
TARGET = Target(1.15, of_ratio=True)
_MANY_NAME = f"proxy-{MANY}-tokens"
_SUBJECTS = 5
# each row with a token, and the row without one that it is compared with
_WITHOUT = {
    "proxy-token": "proxy-no-token",
    _MANY_NAME: "proxy-no-token",
    "backend-token": "backend-no-token",
}
_LIFETIME = 24 * 3600  # s


@dataclass(frozen=True, slots=True)
class Tokens:
    """Files with one token and with many, and the settings of servers that check them."""

    first: str
    one: Path
    many: Path
    backend: dict[str, str]
    proxy: dict[str, str]


def create(folder: Path) -> Tokens:
    """Tokens as an identity provider issues them: some claims, signed with RS256; 700 to 800 B."""
    key = rsa.generate_private_key(65537, 2048)
    made = [_token(key, number) for number in range(MANY)]
    one, many, public, secret = (folder / name for name in ("token", "tokens", "key.pem", "secret"))
    one.write_text(made[0] + "\n")
    many.write_text("".join(f"{token}\n" for token in made))
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(32) + "\n")
    of_cluster = {"QUERYABLE_CLUSTER_SECRET_FILE": str(secret)}
    backend = {"QUERYABLE_AUTH": "jwt", "QUERYABLE_JWT_KEY_FILE": str(public), **of_cluster}
    return Tokens(made[0], one, many, backend, of_cluster)


def _token(key: rsa.RSAPrivateKey, number: int) -> str:
    now = int(time.time())
    claims = {
        "iss": "https://login.example.com/realms/bench",
        "aud": "queryable-topics",
        "sub": f"8f4e1c52-6f0d-4a3e-9f6b-{number:012d}",
        "azp": f"client-{number}",
        "iat": now,
        "exp": now + _LIFETIME,
        "jti": f"bd1f3a70-31c6-4c1e-8f4e-{number:012d}",
        "scope": f"read:{records.VIEW} metrics append:orders",
    }
    return jwt.encode(claims, key, "RS256", {"kid": "bench-2026-11"})


def steps(plan: Plan) -> int:
    return plan.rounds * _SUBJECTS * len(plan.connections)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    tokens = create(stack.folder_of("."))
    plain, checking = stack.filled_backend(), _launch_backend(stack, tokens)
    plain_proxy = stack.launch_proxy(plain)
    proxy = stack.launch_proxy(checking, settings=tokens.proxy)
    for server in (proxy, checking):
        sample_answer(server.port, tokens.first)
    by_proxy = [proxy, checking]
    measured = {
        Served("proxy-no-token", lambda: [plain_proxy, plain], proxy=True): None,
        Served("proxy-token", lambda: by_proxy, proxy=True, token=tokens.first): tokens.one,
        Served(_MANY_NAME, lambda: by_proxy, proxy=True, token=tokens.first): tokens.many,
        Served("backend-no-token", lambda: [plain]): None,
        Served("backend-token", lambda: [checking]): tokens.one,
    }
    workloads = {
        subject: Workload(records.PATH, stack.count, tokens=file)
        for subject, file in measured.items()
    }
    subjects = {subject.name: subject for subject in workloads}
    for subject, reads in workloads.items():
        subject.warm_up(reads, plan.seconds)
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for subject, reads in workloads.items():
                subject.load(reads, connections, plan.seconds)
                yield [
                    each.loaded_row(c, _comparisons(subjects, name, c))
                    for c in plan.connections
                    for name, each in subjects.items()
                ]


def _comparisons(subjects: dict[str, Served], name: str, connections: int) -> list[Comparison]:
    if name not in _WITHOUT:
        return []
    ours, without = (subjects[each].cpu(connections) for each in (name, _WITHOUT[name]))
    return compare("CPU", "µs", ours, "without a token", without, TARGET)


def _launch_backend(stack: Stack, tokens: Tokens) -> Server:
    """A backend with all records that checks tokens. It was restarted, like the other backend."""
    name = stack.new_name("backend")
    backend = stack.launch_backend(name, name, settings=tokens.backend)
    stack.wait_ready(backend, token=tokens.first)
    stack.stop(backend)
    backend = stack.launch_backend(name, name, settings=tokens.backend)
    stack.wait_ready(backend, token=tokens.first)
    stack.wait_idle(backend)
    return backend
