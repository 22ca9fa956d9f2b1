"""Requests as they come in, and answers as they go out."""
