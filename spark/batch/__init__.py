"""Batch jobs: push a whole view from a DataFrame, and read views back (`format("queryable")`)."""
