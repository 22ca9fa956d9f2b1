"""The names of groups: the JSON text of the value that their entries have in common."""

from __future__ import annotations

from typing import Any

from model.formats.float64 import json_number
from model.formats.json_decoder import decode_json
from model.formats.json_encoder import encode_json

_RANKS: dict[type, int] = {type(None): 0, bool: 1, int: 2, float: 2, str: 3}
"""The order of groups by the type of their JSON value; objects and arrays come last."""


def name_of(group: object) -> bytes:
    """JSON text; equal for numbers that are equal, as 1 and 1.0, and for objects with the same
    members in another order."""
    if type(group) is float or type(group) is int:
        is_short = -(2**63) <= group < 2**64
        if type(group) is float and is_short and group.is_integer():
            group = int(group)
        elif type(group) is int and not is_short:
            group = _float_if_exact(group)
    name = encode_json(group, sorted_=True)
    # orjson writes null for numbers beyond the range of a double
    return encode_json(_finite(group), sorted_=True) if b"null" in name else name


def _finite(group: Any) -> Any:
    """The value with text for infinite numbers, as the format `float64` writes them."""
    if isinstance(group, dict):
        return {name: _finite(item) for name, item in group.items()}
    if isinstance(group, list):
        return [_finite(item) for item in group]
    return json_number(group) if type(group) is float else group


def place(name: bytes) -> tuple[int, Any]:
    """The rank of a group's type, and what to sort groups of this rank by. Raises ValueError."""
    if name[:1] in (b"{", b"["):
        return len(_RANKS), name
    group = decode_json(name)
    return _RANKS[type(group)], group


def _float_if_exact(number: int) -> float:
    try:
        return float(number) if float(number) == number else number
    except OverflowError:
        return number
