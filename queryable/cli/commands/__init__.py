"""The commands of `queryable`, one module per command or family of commands."""
