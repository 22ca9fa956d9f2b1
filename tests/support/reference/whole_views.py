"""A request for each query of a whole view, whose values have a number `n`."""

WHOLE_VIEWS = {
    "count": "count?exact=true",
    "top": "top?by=n&limit=1000",
    "aggregate": "aggregate?by=n",
}
"""By the name of the query. tests/unit/backend/queries/test_whole_views.py compares them with the
registry."""
