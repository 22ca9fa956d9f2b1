"""The interactive shell and its history: `shell` and `queries`."""
