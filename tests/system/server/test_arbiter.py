"""gunicorn's arbiter is woken by signals, and otherwise rarely; it is small."""

from __future__ import annotations

from pathlib import Path

from local.waiting import wait_until
from tests.support.backends import wake_ups
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic


def test_the_arbiter_looks_rarely_and_replaces_a_killed_worker_at_once(
    deploy: Deploy, make_topic: MakeTopic
) -> None:
    [backend] = deploy(views_toml(v={"topic": make_topic()})).start(1)
    [worker] = backend.workers()
    before, of_worker = wake_ups(backend.pid), wake_ups(worker)
    # the worker checks once a second whether the arbiter has ended, and does more
    wait_until(lambda: wake_ups(worker) >= of_worker + 40, 60, "wake-ups of the worker", 0.2)
    assert wake_ups(backend.pid) - before <= (wake_ups(worker) - of_worker) // 10
    backend.kill_worker(worker)
    wait_until(lambda: [pid for pid in backend.workers() if pid != worker], 5, "another worker")
    backend.wait_ready()


def test_only_the_worker_imports_the_application(deploy: Deploy, make_topic: MakeTopic) -> None:
    """The arbiter would have a copy of each page of memory to which the worker writes."""
    backend = deploy(views_toml(v={"topic": make_topic()})).new()
    backend.uses_command = True
    backend.constants.clear()  # as users run it
    backend.launch().wait_ready()
    [worker] = backend.workers()
    libraries = ("rocksdict", "librdkafka", "cryptography", "numpy")

    def imported(pid: int) -> list[str]:
        files = Path(f"/proc/{pid}/maps").read_text()
        return [name for name in libraries if name in files]

    assert imported(worker) == list(libraries)
    assert imported(backend.pid) == []
