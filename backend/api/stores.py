"""Point reads by kind of store."""

from __future__ import annotations

from backend.api.custom_reads import CustomReads
from backend.api.reads import ViewReads, WrongStoreReads
from backend.api.serving import Serving
from backend.api.versions import VersionedReads
from backend.core.views import View

_READS: dict[str, type[ViewReads]] = {
    "key-value": ViewReads,
    "versioned": VersionedReads,
    "window": WrongStoreReads,
    "session": WrongStoreReads,
}


def reads_of(view: View, serving: Serving) -> ViewReads:
    """What a point read means for this view."""
    return _READS.get(view.store, CustomReads)(view, serving)
