"""A pytest plugin: the order of test files, and their assignment to xdist workers."""

from __future__ import annotations

from typing import Any

import pytest

# The slowest files, listed by hand. They run first and the unit tests last, so that no worker has a
# slow file at the end.
FIRST = (
    "tests/spark/test_supervise.py",
    "tests/spark/derive/test_results.py",
    "tests/pipelines/test_pipelines.py",
    "tests/e2e/test_demo.py",
    "tests/system/queries/test_queries.py",
    "tests/system/cluster/test_membership.py",
    "tests/system/ingest/test_broker_outage.py",
    "tests/spark/test_run.py",
    "tests/spark/processes/test_standalone.py",
    "tests/system/cluster/test_crash.py",
    "tests/streams/test_streams.py",
    "tests/local/test_broker.py",
    "tests/system/cluster/test_standbys.py",
    "tests/system/queries/test_openapi.py",
    "tests/system/ingest/test_topic_changes.py",
    "tests/spark/test_freshness.py",
    "tests/backend/http/admin/test_lost_instances.py",
    "tests/streams/test_odd_stores.py",
    "tests/faults/test_scenarios.py",
)
# The files of each group share a Spark session, which needs half a minute of CPU time to warm up:
# one worker runs them.
SESSIONS = (
    (
        "tests/spark/test_supervise.py",
        "tests/spark/supervision/test_control.py",
        "tests/spark/supervision/test_silence.py",
        "tests/spark/supervision/test_checkpoint_errors.py",
        "tests/spark/supervision/test_dead_letters.py",
        "tests/spark/supervision/test_slow_stop.py",
        "tests/spark/supervision/test_tombstones.py",
        "tests/spark/test_logs.py",
        "tests/spark/test_streams.py",
        "tests/spark/test_no_record_ends_a_query.py",
        "tests/spark/test_cluster.py",
        "tests/spark/test_dead_letter_topic.py",
        "tests/spark/processes/test_executors.py",
        "tests/spark/processes/test_java_process.py",
        "tests/spark/realtime/test_real_time.py",
        "tests/spark/test_jvm_names.py",
        "tests/spark/test_tables.py",
        "tests/spark/test_views.py",
        "tests/spark/security/test_kafka_authentication.py",
    ),
    (
        "tests/spark/derive/test_results.py",
        "tests/spark/derive/test_columns.py",
        "tests/spark/derive/test_dead_letters.py",
        "tests/spark/derive/test_demo_views.py",
        "tests/spark/derive/test_job.py",
        "tests/spark/batch/test_pushes.py",
        "tests/spark/checkpoints/test_check.py",
        "tests/spark/formats/test_checks.py",
        "tests/spark/formats/test_dead_letters.py",
        "tests/spark/formats/test_documentation.py",
        "tests/spark/formats/test_pipelines.py",
        "tests/spark/supervision/test_new_checkpoints.py",
        "tests/spark/supervision/test_partitions.py",
        "tests/spark/realtime/test_json_values.py",
        "tests/spark/realtime/test_placement.py",
        "tests/spark/realtime/test_plan_rules.py",
        "tests/spark/views/test_connect.py",
        "tests/spark/views/test_joins.py",
        "tests/spark/views/test_new_view.py",
        "tests/spark/views/test_sources.py",
        "tests/spark/views/test_view_topics.py",
    ),
)
_UNITS = {file: files[0] for files in SESSIONS for file in files}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the files, but not the tests in a file."""
    rank = {name: number for number, name in enumerate(FIRST)}

    def place(item: pytest.Item) -> tuple[int, bool]:
        is_unit_test = not any(map(item.get_closest_marker, ("broker", "spark", "system")))
        return rank.get(_work_unit(item.nodeid), len(FIRST)), is_unit_test

    items.sort(key=place)


def _work_unit(nodeid: str) -> str:
    """The unit that one worker runs: a file, or all files of a Spark session."""
    file = nodeid.partition("::")[0]
    return _UNITS.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile` in the order above: xdist's own order is by the number of tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InOrder(LoadFileScheduling):
        """Also works around bugs of xdist 3.8 after a worker has died (its issues 1323, 1327,
        1378): xdist runs the test that killed the worker again and again, and it gives finished or
        single units to the replacement, which then waits forever."""

        def _split_scope(self, nodeid: str) -> str:
            return _work_unit(nodeid)

        def remove_node(self, node: Any) -> str | None:
            units = self.assigned_work.pop(node)
            crashed = next(
                (nodeid for unit in units.values() for nodeid, done in unit.items() if not done),
                None,
            )
            for name, unit in units.items():
                if crashed in unit:
                    unit[crashed] = True  # it counts as failed and does not run again
                if not all(unit.values()):
                    self.workqueue[name] = unit
            self._fill()
            return crashed

        def schedule(self) -> None:
            super().schedule()
            self._fill()

        def _fill(self) -> None:
            """Gives each worker at least two tests, because a worker starts its first test only
            when it has a second one. An empty queue ends the workers when they are done."""
            for node in self.nodes:
                if node not in self.registered_collections:
                    continue  # it is still collecting
                before = -1
                while not node.shutting_down and before != (left := len(self.workqueue)):
                    before = left
                    self._reschedule(node)

    config.option.loadscopereorder = False
    return InOrder(config, log)
