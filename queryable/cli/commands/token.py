"""`queryable token`: a token for trying authentication."""

from __future__ import annotations

import getpass
import shlex
from pathlib import Path
from typing import Annotated

import typer

from model.times import parse_duration
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import print_stderr
from queryable.cli.optional_dependencies import server_extra
from queryable.client.protocol.errors import BadUse


@command
def token(
    scopes: Annotated[list[str], typer.Argument(metavar="SCOPE", help="What the token allows.")],
    key_file: Annotated[
        Path,
        typer.Option("--key-file", metavar="FILE", help="The key. Created if there is none."),
    ] = Path("token-key"),
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a new key: ES256 or HS256. [default: ES256]"),
    ] = None,
    lifetime: Annotated[
        str, typer.Option(metavar="DURATION", help="How long it is valid: 5m, 12h, 7d.")
    ] = "12h",
    subject: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose it is. [default: your user name]")
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="As QUERYABLE_JWT_ISSUER.")
    ] = None,
    audience: Annotated[
        str | None, typer.Option(metavar="TEXT", help="As QUERYABLE_JWT_AUDIENCE.")
    ] = None,
) -> None:
    """Sign a token with a key on this machine, and print it.

    For trying authentication, and for tests: in production an issuer signs tokens. Scopes are
    read:VIEW, read:*, append:TOPIC, append:*, metrics and admin. For ES256, FILE
    has the private key, and FILE.pub the public key, which the backends need. For HS256, FILE has
    a secret. Everyone who can verify tokens with it can also sign them.

    \b
    Examples:
      mkdir -p .run
      queryable token 'read:*' --key-file .run/token-key > .run/token
      QUERYABLE_AUTH=jwt QUERYABLE_JWT_KEY_FILE=.run/token-key.pub \\
        QUERYABLE_TOKEN="$(cat .run/token)" queryable up
      queryable get word-count the --token-file .run/token
      queryable token read:orders append:orders --lifetime 5m
    """
    with server_extra("token"):
        from queryable.cli import signing
    if algorithm not in (None, *signing.ALGORITHMS):
        raise BadUse(f"--algorithm {algorithm!r} is invalid. Supported: ES256, HS256.")
    try:
        seconds = parse_duration(lifetime) / 1000
    except ValueError as error:
        raise BadUse(f"--lifetime: {error}.") from None
    if not key_file.exists():
        signing.create_key(key_file, algorithm or "ES256")
        print_stderr(f"created the key {key_file}")
    elif algorithm not in (None, signing.read_key(key_file)[1]):
        raise BadUse(f"The key {key_file} is not for {algorithm}. Name another file, or leave it.")
    signed = signing.sign(
        key_file, scopes, seconds, subject or _user_name(), iss=issuer, aud=audience
    )
    public = signing.public_path(key_file)
    verifying = public if signing.read_key(key_file)[1] == "ES256" else key_file
    print_stderr(
        "backends verify it with QUERYABLE_AUTH=jwt QUERYABLE_JWT_KEY_FILE="
        + shlex.quote(str(verifying.absolute()))  # backends may run in another folder
    )
    print(signed)


def _user_name() -> str:
    """The name of the user. Raises BadUse if the user has none: in a container, a user may only
    have a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise BadUse("Your user has no name. Say whose the token is: --subject NAME.") from None
