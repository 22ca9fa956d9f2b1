"""Point reads by kind of store."""

from __future__ import annotations

from backend.instance_context import InstanceContext
from backend.queries.custom_point import CustomReads
from backend.queries.point import ViewReads, WrongStoreReads
from backend.queries.versions import VersionedReads
from model.views import View


def reads_of(view: View, context: InstanceContext) -> ViewReads:
    """What a point read means for this view."""
    kind = view.kind
    if kind.is_custom:
        return CustomReads(view, context)
    if not kind.has_points:
        return WrongStoreReads(view, context)
    return (VersionedReads if kind.has_versions else ViewReads)(view, context)
