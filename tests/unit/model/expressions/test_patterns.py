"""Which regular expressions are allowed."""

from __future__ import annotations

import pytest

from model.expressions.patterns import check_pattern


@pytest.mark.parametrize(
    "pattern", ["[a-z0-9_']+", r"\d{1,3}", "^(?:a|b)?(c)$", r"[^\s\]]+?", "x{2,}"]
)
def test_patterns(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a|b)*", "(a+)+", "(?:a){9}", "(?=a)", r"\1", r"\p{L}", "[a&&b]", "[[a]]", "[]a]", "a{",
     "a{2", "x{9999}", "(", "*", "a*" * 9, r"[\b]", "(?i)a", "\\"],
)  # fmt: skip
def test_patterns_that_java_reads_otherwise_or_that_may_fail(pattern: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(\S+) (\S+) (\S+) \[([^\]]+)\] \"([^\"]*)\" (\d{3}) (\d+|-) ",
        r"\b[a-z](\d+)\b",
        r"(\w+)@(\w+)\.(?:com|org)",
        "user=.*id=([0-9]+)",
        "^.*a.*b",
        ".*error",
        "[a-z]+!",
        r"\s*(\d+) *(ms|s)?",
        ".{0,100}a.{0,100}b",
        r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}",
        "https?://([^/]+)(/[^?]*)?",
        "[^é]*é[^à]*à[^ê]*ê",
        "(a.*|b.*|c.*)",
        "a*+b",
        "",
    ],
)
def test_patterns_that_are_fast_on_a_long_text(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        (".*a.*b.*c", ".*"),
        (".*a.*b", ".*"),
        ("^.*a.*b.*c", ".*"),
        (".*a[^ ]* x", ".*"),
        ("x[a-z]+[a-z ]+[a-z]{2,}!", "[a-z]+"),
        ("[^é]*à[^é]*à[^é]*à", "[^é]*"),
        ("(.*)(a|)(.*)(a|)b", ".*"),
        ("a{1,999}a{1,999}a{1,999}b", "a{1,999}"),
        (r"(\w+)\B(\w+)\B(\w+)!", r"\w+"),
        ("^a|.*a.*b", ".*"),
        ("(?:.*a)?.*b", ".*"),
    ],
)
def test_patterns_that_take_hours_on_a_long_text(pattern: str, first: str) -> None:
    """Regression: a record with a text of some thousand characters could block a view for hours."""
    with pytest.raises(ValueError, match="must not take hours for a long text: ") as error:
        check_pattern(pattern)
    assert f": {first} also matches" in str(error.value)
