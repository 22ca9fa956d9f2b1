"""Checks regular expressions: Java and Python must read them alike, and they must not fail or take
hours on a long text.

Java's matcher calls itself for each repetition of a group, so ``(a|b)*`` on a long text ends the
query with a StackOverflowError. Nested repetitions can take exponential time. If k repetitions
match what follows them, as in ``.*a.*b``, a text of n characters takes about n^k steps. So for a
text of ``LONG_TEXT`` characters, a pattern may take about n^2 steps at most.
"""

from __future__ import annotations

import re
import warnings

from model.expressions.pattern_steps import LONG_TEXT, Part, most_steps

_MAX_REPETITIONS = 8
_MAX_STEPS = 10 * LONG_TEXT**2  # Java takes some minutes for them
_MAX_TIMES = 1000
# One part of a pattern, in the syntax that is allowed.
_PART = re.compile(
    r"(?P<class>\[\^?(?:\\[dDwWsS]|\\[^A-Za-z0-9]|[^\\\[\]&])(?:\\[dDwWsS]|\\[^A-Za-z0-9]|[^\\\[\]&])*])"
    r"|(?P<escape>\\[dDwWsSbB]|\\[^A-Za-z0-9])"
    r"|(?P<group>\((?:\?:|(?!\?)))|(?P<end>\)(?P<again>[*+{])?)"
    r"|(?P<repetition>(?:[*+?]|\{(?P<from>[0-9]{1,4})(?:,(?P<to>[0-9]{0,4}))?})\??)"
    r"|(?P<literal>[^\\\[\](){}*+?])",
    re.ASCII | re.DOTALL,
)


def check_pattern(pattern: str) -> int:
    """Check a pattern and return its number of groups. Raises ValueError if it is not allowed."""
    repetitions = at = 0
    parts: list[Part] = []
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise ValueError(
                rf"'{pattern[at : at + 10]}' is not allowed in a regular expression; allowed: "
                r"[...], (...), (?:...), |, *, +, ?, {2,3}, \d \w \s \b, and \ before any other "
                "sign"
            )
        if part["again"]:
            raise ValueError("a regular expression must not repeat a group: (...)*")
        if part["repetition"]:
            repetitions += 1
            if max(int(part[end] or 0) for end in ("from", "to")) > _MAX_TIMES:
                raise ValueError(f"a regular expression repeats at most {_MAX_TIMES} times")
            if parts:
                parts[-1] = _repeated(parts[-1], part)
        else:
            parts.append(Part("(" if part["group"] else ")" if part["end"] else part[0]))
        at = part.end()
    if repetitions > _MAX_REPETITIONS:
        raise ValueError(f"a regular expression has at most {_MAX_REPETITIONS} repetitions")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # sets that will get another meaning
            groups = re.compile(pattern, re.ASCII).groups
    except (re.error, FutureWarning) as e:
        raise ValueError(f"'{pattern[:60]}' is not a regular expression: {e}") from None
    steps, first = most_steps(parts)
    if steps > _MAX_STEPS:
        raise ValueError(
            f"a regular expression must not take hours for a long text: {first} also matches what "
            "can follow it. Exclude that, as in [^ ]* before a space, set a limit, as in {0,20}, "
            "or let the pattern begin with ^"
        )
    return groups


def _edges(word: str) -> dict[str, str]:
    return {
        r"\b": f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))",
        r"\B": f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))",
    }


_NO_MORE = r"(?![\s\S])"
_JAVA = _edges(r"[\p{L}\p{N}_]")
_PYTHON = {
    **_edges(r"(?u:\w)"),
    ".": "[^\n\r\x85\u2028\u2029]",
    # at the end, or before the end of the last line
    "$": rf"(?:{_NO_MORE}|(?=\r\n{_NO_MORE})|(?<!\r)(?=\n{_NO_MORE})"
    rf"|(?=[\r\x85\u2028\u2029]{_NO_MORE}))",
}


def java_pattern(pattern: str) -> str:
    """A checked pattern for Java. Its ``\\b`` is an edge of a word of letters and numbers of any
    script, as it is for Java up to version 18; later ones know only those of ASCII."""
    return _PART.sub(lambda part: _JAVA.get(part[0], part[0]), pattern)


def python_pattern(pattern: str) -> re.Pattern[str]:
    """A checked pattern with the meaning that ``java_pattern`` has: more characters than for Python
    end a line."""
    return re.compile(_PART.sub(lambda part: _PYTHON.get(part[0], part[0]), pattern), re.ASCII)


def check_like(pattern: str) -> None:
    """Check a pattern of SQL's ``like``, which Spark turns into a regular expression. Raises
    ValueError if it is not allowed."""
    by_sign = {"%": Part(".", 0, LONG_TEXT), "_": Part(".")}
    wanted = pattern.rstrip("%")
    parts = [by_sign.get(sign) or Part(re.escape(sign)) for sign in wanted]
    end = [] if wanted != pattern else [Part("$")]
    steps, _ = most_steps([Part("^"), *parts, *end])
    if steps > _MAX_STEPS:
        raise ValueError(
            "the pattern of like has at most two %, apart from those at its end: it would take "
            "hours for a long text"
        )


def _repeated(part: Part, repetition: re.Match[str]) -> Part:
    if part.least != part.most:
        return part  # a repetition of a repetition: a*+
    if repetition["from"] is None:
        least = 1 if repetition[0][0] == "+" else 0
        return part._replace(least=least, most=1 if repetition[0][0] == "?" else LONG_TEXT)
    least, most = int(repetition["from"]), repetition["to"]
    return part._replace(
        least=least, most=least if most is None else int(most) if most else LONG_TEXT
    )
