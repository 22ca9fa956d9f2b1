"""A few of the attacks, for a short time; `make attacks` runs all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.errors import LocalError
from local.kafka.broker import Broker
from tests.attacks.__main__ import chosen
from tests.attacks.attack import BACKEND, PROXY, TOKENS
from tests.attacks.families import ATTACKS
from tests.attacks.measuring import MAX_GROWTH_MB
from tests.attacks.report import write
from tests.attacks.runner import HonestReaders, honest_readers, run_attack
from tests.attacks.running_site import RunningSite, running_site

# cheap ones, of different families
SHORT = [
    "backend/slow-bodies",
    "backend/ambiguous-framing",
    "proxy/disguised-internal",
    "backend/malformed-internal",
    "backend/deep-json",
    "proxy/header-injection",
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[RunningSite]:
    with running_site(broker, tmp_path_factory.mktemp("attacks")) as site:
        yield site


@pytest.fixture(scope="module")
def honest(running: RunningSite) -> Iterator[HonestReaders]:
    with honest_readers(running) as readers:
        yield readers


@pytest.mark.parametrize("name", SHORT)
def test_attacks_are_refused_and_no_reader_notices(
    running: RunningSite, honest: HonestReaders, tmp_path: Path, name: str
) -> None:
    for times in (0.7, 3.0, 12.0):  # longer if the machine is so busy that hardly any are sent
        result = run_attack(ATTACKS[name], running, honest, times=times, patience=5.0, yields=False)
        # the times are for `make attacks`: here, other tests use the machine
        assert (result.refused, result.honest_errors, result.why) == (True, 0, []), result
        assert result.baseline_p99_ms > 0
        assert result.honest_p99_ms > 0
        if sum(result.outcomes.values()) > 10:
            break
    assert sum(result.outcomes.values()) > 10
    assert result.growth_mb < MAX_GROWTH_MB
    write([result], tmp_path / "attacks.json")
    [document] = json.loads((tmp_path / "attacks.json").read_text())
    assert document["attack"] == name
    assert document["peak_rss_mb"] > 100


def test_there_are_forty_attacks_at_both_targets() -> None:
    targets = [attack.target for attack in ATTACKS.values()]
    assert min(targets.count(PROXY), targets.count(BACKEND)) >= 40
    assert {attack.needs for attack in ATTACKS.values()} > {TOKENS}


def test_attacks_are_chosen_by_name() -> None:
    assert len(chosen(())) == len(ATTACKS)
    both = ["proxy/slow-bodies", "backend/slow-bodies"]
    assert [attack.full_name for attack in chosen(("slow-bodies",))] == both
    assert [a.full_name for a in chosen(("proxy/churn,backend/desync",))] == [
        "proxy/churn",
        "backend/desync",
    ]
    with pytest.raises(LocalError, match="unknown attacks: nobody"):
        chosen(("nobody",))
