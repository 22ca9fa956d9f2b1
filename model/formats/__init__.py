"""Formats of keys and values: record bytes, stored bytes, URL text, JSON and Python values.

Pure functions. Schemas that must be fetched come from a `SchemaSource`. `registry` has all formats;
a new format is a module next to this one and a line there. No other module may know a format's
name.
"""
