"""A view as a DataFrame, without Spark's Java process."""

from __future__ import annotations

import pytest

from queryable import Entry, Unreadable
from queryable.client.protocol.views import View
from spark.batch.reader import _refuse_unreadable
from spark.errors import JobError
from tests.support.clients.scripted_transport import ORDERS


def test_a_value_that_cannot_be_read_is_not_taken_for_a_row() -> None:
    """Its report is JSON, too."""
    view = View.from_json(ORDERS)
    _refuse_unreadable(view, [Entry("a", 1), Entry("b", None)])
    with pytest.raises(JobError, match=r"key 'b', at offset 9 of partition 3 .* no JSON"):
        _refuse_unreadable(view, [Entry("a", 1), Entry("b", Unreadable(3, 9, "no JSON"))])
