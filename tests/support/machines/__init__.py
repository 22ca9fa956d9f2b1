"""Several machines in one: a network namespace and a folder for each, with the packaged units."""
