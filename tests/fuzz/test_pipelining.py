"""Pipelined mixes of requests, through nginx and at a backend."""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.pipelining import Mix, Request, WrongAnswer, run
from tests.support.deployment import views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

KEYS = 200
REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "3000"))
"""Of each target; `make fuzz` sends more."""


@pytest.fixture(scope="module")
def targets(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> dict[str, int]:
    """Ports by name."""
    topic = make_topic(4)
    writer.table(topic, {f"k{n}": {"id": n} for n in range(KEYS)})
    deployment = module_deploy(views_toml(orders={"topic": topic}))
    backends = deployment.start(2)
    nginx: Nginx = deployment.proxy()
    return {"proxy": nginx.port, "backend": backends[0].port}


@pytest.mark.parametrize("target", ["proxy", "backend"])
@pytest.mark.timeout(1200)
def test_each_answer_is_that_of_its_request(targets: dict[str, int], target: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    try:
        answered = run(targets[target], Mix("orders", KEYS), REQUESTS, random.Random(seed))
    except WrongAnswer as e:
        pytest.fail(f"seed {seed}: {e}")
    assert answered >= REQUESTS


def test_an_answer_of_another_request_is_noticed(targets: dict[str, int]) -> None:
    class Crossed(Mix):
        def request(self, random_: random.Random) -> Request:
            asked, expected = super().request(random_), super().request(random_)
            return Request(asked.data, expected.check, asked.has_body)

    with pytest.raises(WrongAnswer):
        run(targets["backend"], Crossed("orders", KEYS), 100, random.Random(1))
