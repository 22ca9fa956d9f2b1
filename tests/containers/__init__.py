"""`make compose-test`: the images and docker-compose.yml, run by Debian's Docker engine.

`run` starts pytest in a network namespace of its own, in which the tests start an engine of their
own: no other engine is touched, and what listens does so there. It needs root."""
