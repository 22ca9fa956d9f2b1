"""Pipelined mixes of requests, through nginx and at a backend."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from backend.security.cluster_secret import ClusterSecret
from backend.security.signatures import Purpose, Signer
from local.kafka.broker import Broker
from model.views_file import parse_views
from tests.fuzz.pipelining.connections import MakeRequest, WrongAnswer, answer_to, is_answer, run
from tests.fuzz.pipelining.example import KEYS, NOTES, OF_HISTORY, ORDERS, PARTITIONS, Topics
from tests.fuzz.pipelining.kinds.internal import Internal, Signers
from tests.fuzz.pipelining.mix import Mix, with_token
from tests.fuzz.pipelining.requests import NO_TOKEN, Draw, Request, Token
from tests.support.backends import Backend
from tests.support.deployment import Deployment
from tests.support.in_process.tokens import SECRET, token
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.security.cluster_secret import cluster_secret
from tests.support.security.private_file import write_private
from tests.support.topics import Writer, history

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "1500"))
"""Of each target; `make fuzz` sends more."""
CONNECTIONS = {"proxy": 8, "backend": 2}
"""nginx sends the reads of several connections to a backend together."""
HOUR = 3600
ALIKE = {
    "appends._not_allowed", "documents._admin", "documents._admin_data", "documents._health",
    "documents._identity", "documents._instance", "documents._metrics", "documents._openapi",
    "documents._processors", "documents._versions", "documents._view", "documents._views",
    "histories._wrong_store", "internal._forged", "internal._replayed", "kiqr._count",
    "kiqr._without_serde", "values._changes_of_windows", "values._no_such_form",
    "values._wrong_method", "whole_views._aggregate", "whole_views._count",
    "whole_views._wrong_store",
}  # fmt: skip
"""The kinds whose answers are the same for all keys. The order of the answers tells them apart, and
most name their view, route or parameter."""


@dataclass
class Targets:
    """A deployment: ports by name, ids of its instances, and the senders of requests."""

    topics: Topics
    ports: Mapping[str, int]
    instances: frozenset[str]
    internal: Internal
    tokens: Sequence[Token]

    def mix(self, target: str) -> Mix:
        """A new one."""
        if target == "proxy":
            return Mix(self.topics.of, self.instances, tokens=self.tokens)
        internal = replace(self.internal)
        return Mix(self.topics.of, frozenset([internal.instance]), internal, self.tokens)

    def run(self, target: str, seed: int, make: MakeRequest, requests: int = REQUESTS) -> int:
        random_, connections = random.Random(seed), CONNECTIONS[target]
        return run(self.ports[target], make, requests, random_, connections)


def _token(subject: str, *scopes: str) -> Token:
    text = token(*scopes, seconds=HOUR, sub=subject)
    return Token(text, frozenset(scopes), subject)


OPERATOR = ("read:*", "append:*", "metrics", "admin")


def tokens(topics: Topics) -> list[Token]:
    """Of senders who may do everything, some things or nothing."""
    nothing = frozenset[str]()
    return [
        Token(scopes=nothing),
        Token("a.b.c", nothing),
        Token(token("read:*", seconds=HOUR, key=SECRET[::-1]), nothing),
        *(_token(f"reader {n}", "read:*", "append:*") for n in range(3)),
        *(_token(f"operator {n}", *OPERATOR) for n in range(2)),
        _token("orders", f"read:{ORDERS}", f"append:{topics.of[NOTES]}"),
        _token("history", *(f"read:{view}" for view in OF_HISTORY)),
    ]


@pytest.fixture(scope="module", params=["off", "jwt"])
def targets(
    request: pytest.FixtureRequest,
    module_deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Targets:
    """Two backends and nginx, without authentication and with it."""
    topics = Topics(make_topic, writer)
    folder = tmp_path_factory.mktemp("secrets")
    group = f"pipelining-{secrets.token_hex(4)}"
    senders = [NO_TOKEN]
    # a long time-out: partitions stay where they are, however busy the machine is
    settings = {"application_id": group, "session_timeout_ms": "30000"}
    if request.param == "jwt":
        write_private(folder / "key", SECRET)
        settings |= {"auth": "jwt", "jwt_key_file": str(folder / "key")}
        senders = tokens(topics)
    deployment = module_deploy(topics.views_toml, **settings)
    deployment.use_secrets(secrets.token_hex(32))
    deployment.token = token(*OPERATOR, seconds=HOUR)
    backends = deployment.start(2)
    ports = {"proxy": deployment.proxy().port, "backend": backends[0].port}
    instances = frozenset(backend.id for backend in backends)
    internal = internal_of(deployment, backends, group, folder, topics)
    internal.tokens = senders
    return Targets(topics, ports, instances, internal, senders)


def internal_of(
    deployment: Deployment, backends: list[Backend], group: str, folder: Path, topics: Topics
) -> Internal:
    """For the first of two backends."""
    secret = ClusterSecret(deployment.folder / "cluster-secret", group)
    first, other = backends
    held: dict[str, list[int]] = {}
    for each in first.instance()["partitions"]:
        held.setdefault(each["view"], []).append(each["partition"])
    return Internal(
        first.id,
        other.id,
        group,
        Signers(
            Signer(secret),
            Signer(secret, Purpose.PROXY),
            Signer(cluster_secret(folder, application_id=group)),
        ),
        {view.name: view for view in parse_views(topics.views_toml).views},
        held,
    )


@pytest.mark.parametrize("target", ["proxy", "backend"])
def test_each_answer_is_that_of_its_request(targets: Targets, target: str, broker: Broker) -> None:
    seed = random.SystemRandom().randrange(2**32)
    mix = targets.mix(target)
    try:
        answered = targets.run(target, seed, mix.request)
    except WrongAnswer as e:
        pytest.fail(f"seed {seed}: {e}")
    assert answered >= REQUESTS
    assert mix.appends.stored
    logs = history(broker.bootstrap_servers, targets.topics.of[NOTES], PARTITIONS)
    assert mix.appends.are_in(logs)
    assert mix.internal is None or mix.internal.read_together


def test_the_check_of_each_kind_refuses_the_answer_to_another_request(targets: Targets) -> None:
    port, mix = targets.ports["backend"], targets.mix("backend")
    targets.run("backend", 1, mix.request, 400)  # some are about earlier answers
    all_may = [each for each in targets.tokens if each.scopes is None or {*OPERATOR} <= each.scopes]
    random_ = random.Random(1)
    alike = set[str]()
    for kind in mix.kinds:
        for _ in range(8):
            seed = random_.random()
            asked, other = (
                with_token(kind.make(Draw(number, sender, random.Random(seed))), sender)
                for number, sender in zip(
                    random_.sample(range(KEYS), 2), (all_may[0], all_may[-1]), strict=True
                )
            )
            answer = answer_to(port, asked)
            assert is_answer(asked, answer), (asked, answer)
            if not is_answer(other, answer):
                break
        else:
            alike.add(f"{kind.make.__module__.rpartition('.')[2]}.{kind.make.__name__}")
    has_subjects = any(each.subject for each in targets.tokens)
    assert alike == ALIKE - ({"documents._identity"} if has_subjects else set())


def test_an_answer_of_another_request_is_noticed(targets: Targets) -> None:
    mix = targets.mix("backend")

    def crossed(random_: random.Random) -> Request:
        return replace(mix.request(random_), check=mix.request(random_).check)

    with pytest.raises(WrongAnswer):
        targets.run("backend", 1, crossed, 100)
