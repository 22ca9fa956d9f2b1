"""pytest plugins: fixtures, logs of failed tests, scheduling over xdist's workers, time-outs."""
