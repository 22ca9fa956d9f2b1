"""Records of a service's current deployment."""

from __future__ import annotations

import itertools

import orjson
import pytest

from model.changes.deployments import NAME, DeploymentState, decode_record, document, encode_record
from model.changes.records import fold

STATE = DeploymentState("shop-1")


def test_a_switch_and_the_way_back() -> None:
    switched = STATE.switched_to("shop-2")
    assert switched == DeploymentState("shop-2", "shop-1", 2)
    assert switched.switched_to("shop-1") == DeploymentState("shop-1", "shop-2", 3)


def test_records_round_trip() -> None:
    for state in (STATE, STATE.switched_to("shop-2")):
        assert decode_record(encode_record("shop", state, 5)) == ("shop", state)


def test_a_malformed_record_is_an_error() -> None:
    good = encode_record("shop", STATE.switched_to("shop-2"), 5)
    bad = [None, b"", b"[]", b"{}", b'"x"', good * 2, b'"' + b"x" * 200_000 + b'"']
    for field, value in itertools.product(
        ("name", "current", "revision"), (None, True, 0, -1, "", "x" * 250, [])
    ):
        if field != "name" or type(value) is not str:
            bad.append(orjson.dumps({**orjson.loads(good), field: value}))
    bad += [orjson.dumps({**orjson.loads(good), "previous": each}) for each in ("", 1, "x" * 250)]
    for value in bad:
        with pytest.raises(ValueError):  # noqa: PT011
            decode_record(value)


def test_of_two_first_records_the_first_counts() -> None:
    after = fold({}, "shop", STATE)
    assert after == {"shop": STATE}
    assert fold(after, "shop", DeploymentState("shop-2")) is None
    assert fold(after, "shop", STATE.switched_to("shop-2")) == {"shop": STATE.switched_to("shop-2")}


def test_an_unknown_state_has_no_current_deployment() -> None:
    assert document("shop", None) == {
        "name": "shop", "current": None, "previous": None, "revision": 0,
    }  # fmt: skip


def test_the_name_of_a_service_is_part_of_a_topics_name() -> None:
    assert all(NAME.fullmatch(name) for name in ("shop", "a.b_c-9", "x" * 200))
    assert not any(NAME.fullmatch(name) for name in ("", "a b", "ä", "a/b", "x" * 201))
