"""Point reads by kind of store."""

from __future__ import annotations

from backend.instance_context import InstanceContext
from backend.queries.custom_point import CustomReads
from backend.queries.point import ViewReads, WrongStoreReads
from backend.queries.versions import VersionedReads
from model.views import View

_READS: dict[str, type[ViewReads]] = {
    "key-value": ViewReads,
    "versioned": VersionedReads,
    "window": WrongStoreReads,
    "session": WrongStoreReads,
}


def reads_of(view: View, context: InstanceContext) -> ViewReads:
    """What a point read means for this view."""
    return _READS.get(view.store, CustomReads)(view, context)
