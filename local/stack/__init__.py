"""Starts, watches and ends the processes of a deployment on one machine, in order."""
