"""KIQR's REST dialect, for existing clients of KIQR."""
