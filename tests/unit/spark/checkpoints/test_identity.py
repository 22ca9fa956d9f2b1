"""``view.json``: its content, and differences between rules."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spark.checkpoints.identity import Rule, ViewIdentity, from_json, to_json
from spark.checkpoints.plans import normalised

RULE = Rule(
    plan="Project [word#0]\n+- Filter rlike(word#0, [a-z]+)\n   +- Relation [word#0]",
    functions=("f1",),
    code="c1",
    spark="4.2.0",
    release="1.0",
)
IDENTITY = ViewIdentity(
    view="words",
    topic="words",
    sources=("texts", "more"),
    state_version=1,
    state_store="RocksDBStateStoreProvider",
    state_partitions=2,
    rule=RULE,
)


def test_the_file_has_all_fields() -> None:
    assert from_json(to_json(IDENTITY)) == IDENTITY
    known = replace(RULE, literals=("#100", "@cafe"), function_details="f", code_details="")
    full = replace(IDENTITY, rule=known)
    assert from_json(to_json(full)) == full


def test_files_of_earlier_and_later_releases_are_read() -> None:
    found = json.loads(to_json(IDENTITY))
    # earlier releases refuse a rule with other fields, and ignore fields next to it
    assert found["rule"].keys() == {"plan", "functions", "code", "spark", "release"}
    del found["more_of_rule"]
    assert from_json(json.dumps(found)) == IDENTITY


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[]", "TypeError"),
        ("{}", "KeyError: 'format'"),
        (json.dumps({"format": 2}), "it has format 2, and this release reads 1"),
        (json.dumps({"format": 1, "rule": {}}), "KeyError: "),
        (json.dumps({"format": 1, "rule": [], "more_of_rule": 1}), "TypeError"),
    ],
)
def test_another_content_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(text)


def test_the_same_plan_and_functions_are_the_same_rule() -> None:
    assert RULE.difference(RULE) is None
    # the code was rewritten
    assert RULE.difference(replace(RULE, code="c2")) is None


def test_a_difference_of_plans_is_shown() -> None:
    edited = replace(RULE, plan=RULE.plan.replace("[a-z]+", "[A-Z]+"), code="c2")
    assert RULE.difference(edited) == (
        "its plan has `+- Filter rlike(word#0, [A-Z]+)` instead of "
        "`+- Filter rlike(word#0, [a-z]+)`"
    )
    assert edited.digest != RULE.digest
    longer = replace(RULE, plan=RULE.plan + "\n" + "x" * 5000)
    assert len(RULE.difference(longer) or "") < 300


def test_a_difference_of_literals_is_shown() -> None:
    before, now = (replace(RULE, literals=("#7", text)) for text in ("#100", "#200"))
    assert before.difference(now) == "its plan has the text `#200` instead of `#100`"
    assert before.difference(replace(now, literals=("#7",))) == (
        "its plan has the text `` instead of `#100`"
    )
    assert before.digest != now.digest
    # a checkpoint of an earlier release has none
    assert RULE.difference(now) is None
    assert now.difference(RULE) is None
    assert RULE.digest == replace(RULE, literals=()).digest


def test_a_difference_of_functions_is_named() -> None:
    edited = replace(RULE, functions=("f2",))
    assert "a Python function that it runs" in (RULE.difference(edited) or "")
    assert edited.digest != RULE.digest


def test_details_count_if_both_releases_know_them() -> None:
    before = replace(RULE, function_details="f1", code_details="c1")
    edited = replace(before, function_details="f2")
    assert "a Python function that it runs" in (before.difference(edited) or "")
    assert edited.digest != before.digest
    assert RULE.difference(edited) is None
    assert edited.difference(RULE) is None
    assert RULE.digest == replace(RULE, function_details="", code_details="c1").digest
    upgraded = replace(edited, release="1.1")
    assert before.difference(upgraded) is None
    assert "its code was edited" in (before.difference(replace(upgraded, code_details="c2")) or "")
    assert RULE.difference(upgraded) is None


@pytest.mark.parametrize("upgrade", [{"spark": "4.3.0"}, {"release": "1.1"}])
def test_after_an_upgrade_the_code_is_compared(upgrade: dict[str, str]) -> None:
    upgraded = replace(RULE, plan="another", functions=("f2",), **upgrade)
    assert RULE.difference(upgraded) is None
    edited = replace(upgraded, code="c2")
    assert "its code was edited" in (RULE.difference(edited) or "")


def test_plans_of_two_sessions_are_the_same_text() -> None:
    plan = (
        "Aggregate [word#{0}], [word#{0}, count(1) AS n#{1}L]\n"
        "+- EventTimeWatermark {2}, time#{3}\n   +- Relation Provider@{4}, [word#{0}]\n"
    )
    one = plan.format(17, 20, "0d9a3e6f-7a53-4a0c-9d4b-4c6a0f8b2f11", 18, "3fe1a2")
    other = plan.format(117, 7, "1d9a3e6f-7a53-4a0c-9d4b-4c6a0f8b2f12", 9, "aa00")
    assert normalised(one) == normalised(other)
    swapped = plan.format(17, 17, "0d9a3e6f-7a53-4a0c-9d4b-4c6a0f8b2f11", 18, "3fe1a2")
    assert normalised(one) != normalised(swapped)
