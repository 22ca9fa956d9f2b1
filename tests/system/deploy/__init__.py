"""Tests of deploy/: what operators run and look at."""
