"""The demo as a user starts it, asked from outside through nginx and directly."""
