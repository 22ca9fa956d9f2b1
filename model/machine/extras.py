"""How to install an extra of this project. No package index has the project: a name there would be
another owner's, so messages name the checkout or the file of the wheel."""

from __future__ import annotations


def how_to_install(*extras: str) -> str:
    """The command that adds `extras`, such as "server", for the end of a message."""
    names = ",".join(extras)
    return f"Run in a checkout: pip install '.[{names}]' (with a wheel: 'FILE.whl[{names}]')"
