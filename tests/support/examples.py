"""How many examples hypothesis tries: all of them in `make test`, fewer in `make unit`."""

from __future__ import annotations

from hypothesis import settings

QUICK = "quick"
"""The profile of `make unit`."""

_USUAL = 100


def register_profiles() -> None:
    """Registers both profiles and loads the complete one."""
    # how long an example takes depends on the machine
    settings.register_profile("complete", deadline=None, max_examples=_USUAL)
    settings.register_profile(QUICK, deadline=None, max_examples=_USUAL // 10)
    settings.load_profile("complete")


def is_quick() -> bool:
    return settings.get_current_profile_name() == QUICK


def examples(count: int) -> int:
    """The number of examples for a test that tries `count` of them in `make test`."""
    return max(2, count // 10) if is_quick() else count
