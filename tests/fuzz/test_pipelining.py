"""Pipelined mixes of requests, through nginx and at a backend."""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass

import pytest

from tests.fuzz.pipelining import NO_TOKEN, Mix, Request, Token, WrongAnswer, run
from tests.support.deployment import views_toml
from tests.support.in_process.tokens import SECRET, token
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.private_file import write_private
from tests.support.topics import Writer

KEYS = 200
REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "3000"))
"""Of each target; `make fuzz` sends more."""
HOUR = 3600


@dataclass
class Targets:
    """Ports by name, and tokens that may read the view, may not, or are refused."""

    ports: dict[str, int]
    tokens: list[Token]

    def run(self, target: str, seed: int, mix: type[Mix] = Mix, requests: int = REQUESTS) -> int:
        return run(
            self.ports[target], mix("orders", KEYS, self.tokens), requests, random.Random(seed)
        )


@pytest.fixture(scope="module", params=["off", "jwt"])
def targets(
    request: pytest.FixtureRequest,
    module_deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Targets:
    """Two backends and nginx, without authentication and with it."""
    topic = make_topic(4)
    writer.table(topic, {f"k{n}": {"id": n} for n in range(KEYS)})
    views = views_toml(orders={"topic": topic})
    tokens = [NO_TOKEN]
    if request.param == "off":
        deployment = module_deploy(views)
    else:
        key_file = tmp_path_factory.mktemp("keys") / "key"
        write_private(key_file, SECRET)
        deployment = module_deploy(views, auth="jwt", jwt_key_file=str(key_file))
        deployment.use_secrets(secrets.token_hex(32))
        deployment.token = token("read:orders", seconds=HOUR)
        tokens = [Token(refused=401), Token("a.b.c", refused=401)]
        tokens += [Token(token("read:orders", seconds=HOUR, sub=f"{n}")) for n in range(4)]
        tokens += [
            Token(token("read:others", seconds=HOUR), refused=403),
            Token(token("read:orders", seconds=HOUR, key=SECRET[::-1]), refused=401),
        ]
    backends = deployment.start(2)
    nginx: Nginx = deployment.proxy()
    return Targets({"proxy": nginx.port, "backend": backends[0].port}, tokens)


@pytest.mark.parametrize("target", ["proxy", "backend"])
@pytest.mark.timeout(1200)
def test_each_answer_is_that_of_its_request(targets: Targets, target: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    try:
        answered = targets.run(target, seed)
    except WrongAnswer as e:
        pytest.fail(f"seed {seed}: {e}")
    assert answered >= REQUESTS


def test_an_answer_of_another_request_is_noticed(targets: Targets) -> None:
    class Crossed(Mix):
        def request(self, random_: random.Random) -> Request:
            asked, expected = super().request(random_), super().request(random_)
            return Request(asked.data, expected.check, asked.has_body)

    with pytest.raises(WrongAnswer):
        targets.run("backend", 1, Crossed, 100)
