"""Commands that describe views and the fields of their values."""
