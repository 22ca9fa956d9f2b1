"""Draws requests of all kinds, each with one of the tokens."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.fuzz.pipelining.example import KEYS
from tests.fuzz.pipelining.kinds import histories, internal, kiqr
from tests.fuzz.pipelining.kinds.appends import Appends
from tests.fuzz.pipelining.kinds.documents import Documents
from tests.fuzz.pipelining.kinds.internal import Internal
from tests.fuzz.pipelining.kinds.values import Values
from tests.fuzz.pipelining.kinds.whole_views import WholeViews
from tests.fuzz.pipelining.requests import NO_TOKEN, Draw, Kind, Request, Token, is_refusal


@dataclass
class Mix:
    """`topics`: by view. `instances`: the ids that may answer. `internal`: those of the backend to
    which the requests go; None: they go to nginx."""

    topics: Mapping[str, str]
    instances: frozenset[str]
    internal: Internal | None = None
    tokens: Sequence[Token] = (NO_TOKEN,)
    appends: Appends = field(init=False)

    def __post_init__(self) -> None:
        self.appends = Appends(self.topics)
        of_internal = internal.of_proxy() if self.internal is None else self.internal.kinds()
        self.kinds: Sequence[Kind] = [
            *Values().kinds(),
            *histories.kinds(),
            *WholeViews().kinds(),
            *kiqr.kinds(),
            *self.appends.kinds(),
            *Documents(self.instances, self.internal is None).kinds(),
            *of_internal,
        ]
        self._weights = [kind.weight for kind in self.kinds]

    def request(self, random_: random.Random) -> Request:
        [kind] = random_.choices(self.kinds, self._weights)
        draw = Draw(random_.randrange(KEYS), random_.choice(self.tokens), random_)
        return with_token(kind.make(draw), draw.token)


def with_token(request: Request, token: Token) -> Request:
    """The request with the token; its answer must be the refusal, if the token does not allow it.

    A refusal comes before anything else is looked at, also the body.
    """
    if not request.takes_token or not token.text:
        sent = request
    else:
        authorization = {"Authorization": f"Bearer {token.text}"}
        sent = replace(request, headers={**request.headers, **authorization})
    refused = token.refusal(request.needs)
    if refused is None:
        return sent
    check = is_refusal(refused, token, request.needs)
    return replace(sent, check=check, closes=request.closes or request.body is not None)
