"""Whether a view and the changelog that it is made from fit: what is so of changelogs alone,
without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from model.views import CHANGELOG, NEWEST, View
from queryable.console.findings import Finding, warning, wrong
from queryable.console.forgotten import kept_for, lost
from queryable.console.guessed_inner import not_served
from queryable.console.guessed_same_key import in_several
from queryable.console.guesses import Looked, Sure
from queryable.console.guessing import store_of


def changelog(view: View, config: Mapping[str, str], looked: Looked) -> Iterator[Finding]:
    """Records that are no results, another kind of store, the same key in several partitions."""
    if not view.topic.endswith(CHANGELOG) or view.is_custom:
        return
    about = f"view {view.name}"
    if reason := not_served(view.topic, looked.records):
        yield wrong(
            about, f"topic {view.topic} is {reason}",
            "serve another store of the application (docs/kafka-streams.md)",
        )  # fmt: skip
        return
    keyed = [record for record in looked.records if record.key is not None]
    store = store_of(config, keyed)
    if keyed and store.sure is Sure.SURE and store.value != view.store:
        yield wrong(
            about,
            f"topic {view.topic} is the changelog of a {store.value} store: {store.why}",
            f'set store = "{store.value}" in [views.{view.name}]',
        )
    several = in_several(view.store, keyed)
    if several is not None and view.same_key is None:
        yield warning(
            about,
            f"{several}: each may be the result of one task, so their reads are 503 ambiguous-key",
            f"ask with partials=all; or, if such keys have moved, set same_key = "
            f'"{NEWEST}" in [views.{view.name}]',
        )


def forgotten(view: View, config: Mapping[str, str], looked: Looked, now: int) -> Iterator[Finding]:
    """Whether the broker deletes what the store keeps. `now`: ms since 1970."""
    if view.is_custom or (view.retention is None and not view.topic.endswith(CHANGELOG)):
        return
    if kept_for(config) is None and view.store != "versioned":
        return
    gone = lost(config, looked, view.retention, now)
    if gone is None:
        return
    made = wrong if gone.empty and view.topic.endswith(CHANGELOG) else warning
    yield made(
        f"view {view.name}", gone.says,
        f"give topic {view.topic} a retention.ms that reaches back to the oldest event (-1: for "
        "ever); what is deleted comes back only when it is written again",
    )  # fmt: skip
