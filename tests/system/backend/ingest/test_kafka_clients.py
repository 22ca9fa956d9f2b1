"""Clients of librdkafka are not destroyed by their own threads: that aborts the process."""

from __future__ import annotations

import subprocess
import sys

from local.kafka.broker import Broker

ROUNDS = 400


def test_no_thread_of_a_client_destroys_it(broker: Broker) -> None:
    """Regression: a worker aborted when a result of an admin client that was made for one request
    came late."""
    program = "tests.system.backend.ingest.clients_under_load"
    done = subprocess.run(
        [sys.executable, "-m", program, broker.bootstrap_servers, str(ROUNDS)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
