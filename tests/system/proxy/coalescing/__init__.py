"""Coalesced point reads, through a real nginx."""
