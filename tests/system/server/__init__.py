"""Connections, slow clients, startup and shutdown."""
