"""Groups of options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter
from typing import Any, Self, get_type_hints


class OptionGroup:
    """Base of dataclasses whose fields are options. A command that has a parameter of such a class
    has all these options."""

    @classmethod
    def declared(cls, command: str) -> Sequence[Parameter]:
        """The arguments and options that the group is in a command. `command`: the name of the
        command's function."""
        hints = get_type_hints(cls, include_extras=True)
        return [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(cls)  # type: ignore[arg-type]
        ]

    @classmethod
    def from_values(cls, command: str, values: Mapping[str, Any]) -> Self:
        """The group with the values of its options in a command, by the names of the parameters."""
        return cls(**values)
