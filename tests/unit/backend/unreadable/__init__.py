"""Records whose value is not in the view's format: what a reader gets for their keys.

tests/unit/backend/queries/test_every_query.py compares every query with the reference; here are
exact answers, and what is between versions.
"""
