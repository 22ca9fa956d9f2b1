"""A broker with all kinds of authentication, and what its clients need: certificates and tokens."""
