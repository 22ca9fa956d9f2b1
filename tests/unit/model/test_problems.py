"""The errors that a client can get."""

from __future__ import annotations

import re

from model import problems
from model.problems import Problem


def test_every_class_is_in_the_tree_with_its_status() -> None:
    drawn = re.findall(r"[├└]── (\w+) +(\d{3})?", problems.__doc__ or "")
    classes = [
        each
        for each in vars(problems).values()
        if isinstance(each, type) and issubclass(each, Problem) and each is not Problem
    ]
    assert sorted(name for name, _ in drawn) == sorted(each.__name__ for each in classes)
    for name, status in drawn:
        kind = getattr(problems, name)
        assert kind.status == int(status or kind.__base__.status), name
