"""Views that views.toml describes."""
