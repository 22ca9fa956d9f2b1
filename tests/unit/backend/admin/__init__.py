"""The admin page and its document."""
