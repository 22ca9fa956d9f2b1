"""The parts of placement: which members have replicas, standbys, and how many each member gets."""
