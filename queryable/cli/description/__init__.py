"""`queryable describe` and `fields`: the fields of values, and the state of a view. No I/O."""
