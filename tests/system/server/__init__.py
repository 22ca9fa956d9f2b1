"""Connections, slow clients, start and shutdown."""
