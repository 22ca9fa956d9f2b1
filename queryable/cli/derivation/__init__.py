"""Derived views on files, for `queryable derive`."""
