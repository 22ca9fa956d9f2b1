"""Each target for a moment, and with every input that once made it fail."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz import targets, uris
from tests.fuzz.targets import TARGETS, seeds
from tests.fuzz.uris import compare

CRASHES = Path(targets.__file__).parent / "crashes"
INPUTS = 150


def changed(data: bytes, random_: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(random_.randint(0, 4)):
        at = random_.randint(0, len(made))
        if random_.random() < 0.5:
            made[at:at] = random_.randbytes(random_.randint(1, 4))
        else:
            del made[at : at + random_.randint(1, 4)]
    return bytes(made)


@pytest.mark.parametrize("name", TARGETS)
def test_targets_hold_for_changed_inputs(name: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    random_ = random.Random(seed)
    for data in [
        *seeds(name),
        *(changed(random_.choice(seeds(name)), random_) for _ in range(INPUTS)),
    ]:
        try:
            TARGETS[name](data)
        except Exception as e:
            raise AssertionError(f"seed {seed}, input {data!r}") from e


def test_inputs_that_once_failed() -> None:
    for path in CRASHES.glob("*/*"):
        TARGETS[path.parent.name](path.read_bytes())


def test_a_defect_makes_a_target_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "unpack", lambda body, _: [body])
    with pytest.raises(AssertionError):
        TARGETS["packed_strings"](b"a")


@pytest.mark.slow
def test_lua_and_python_read_uris_alike() -> None:
    outcome = compare(20_000, random.SystemRandom().randrange(2**32))
    assert outcome.different == []
    assert outcome.compared == 20_000
    assert outcome.routed > 1000


def test_uris_that_are_read_differently_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = uris.routed
    monkeypatch.setattr(uris, "routed", lambda uri: read(uri.replace(b"%2f", b"%2F%2F")))
    assert compare(20_000, 1, most=3).different
