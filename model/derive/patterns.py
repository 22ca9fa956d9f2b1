"""Regular expressions that Java and Python read alike, and that cannot fail on a long text.

Java's matcher calls itself for each repetition of a group, so ``(a|b)*`` on a long text ends the
query with a StackOverflowError. Nested repetitions can take exponential time.
"""

from __future__ import annotations

import re
import warnings

_MAX_REPETITIONS = 8
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
    """The number of groups. Raises ValueError."""
    repetitions = at = 0
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
        at = part.end()
    if repetitions > _MAX_REPETITIONS:
        raise ValueError(f"a regular expression has at most {_MAX_REPETITIONS} repetitions")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # sets that will get another meaning
            return re.compile(pattern, re.ASCII).groups
    except (re.error, FutureWarning) as e:
        raise ValueError(f"'{pattern[:60]}' is not a regular expression: {e}") from None
