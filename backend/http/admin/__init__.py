"""The admin page and the document behind it."""
