"""Membership, placement, and what instances say to one another."""
