"""A pytest plugin: marks the slowest unit tests, which `make unit` leaves out.

They are listed by hand: those that took more than a second on a quiet machine with two cores.
"""

from __future__ import annotations

import pytest

SLOW = {
    "tests/backend/cluster/test_placement_histories.py": (
        "test_a_global_view_keeps_the_topology_small",
        "test_a_thousand_histories",
        "test_the_largest",
    ),
    "tests/backend/http/limits/test_clients.py": (
        "test_clients_behind_one_proxy_take_turns",
        "test_expensive_queries_take_short_steps",
    ),
    "tests/backend/http/point_reads/test_batched_keys.py": (
        "test_each_read_is_answered_as_if_sent_separately",
    ),
    "tests/backend/http/point_reads/test_batched_paths.py": (
        "test_each_read_is_answered_as_if_sent_separately",
    ),
    "tests/backend/http/point_reads/test_forwarded_reads.py": (
        "test_answers_are_those_of_separate_forwards",
    ),
    "tests/backend/http/point_reads/test_three_ways.py": ("test_the_same_on_each_way",),
    "tests/backend/http/test_access.py": ("test_a_route_needs_a_token_with_its_scope",),
    "tests/backend/ingest/pushes/test_remote_folders.py": ("test_pushes",),
    "tests/backend/ingest/test_stream_time.py": ("test_a_replay_gives_the_same_result",),
    "tests/backend/queries/scans/test_any_partition.py": (
        "test_a_delete_counts_in_whichever_partition_it_lies",
    ),
    "tests/backend/queries/scans/test_moved_keys.py": (
        "test_keys_are_answered_from_both_partitions",
        "test_partitions_are_added_twice",
        "test_whatever_producers_do",
    ),
    "tests/backend/queries/scans/test_scan_memory.py": ("test_memory_does_not_grow_with_the_view",),
    "tests/backend/queries/scans/test_scans.py": ("test_what_is_refused",),
    "tests/backend/queries/scans/test_scans_unavailable.py": (
        "test_a_store_that_is_let_go_under_the_scan",
    ),
    "tests/backend/queries/test_batch.py": (
        "test_a_batch_waits_for_a_schema",
        "test_a_body_that_is_no_batch",
        "test_a_key_of_another_format_fails_alone",
        "test_key_formats",
    ),
    "tests/backend/queries/test_every_query.py": (
        "test_every_answer_is_the_references",
        "test_every_answer_where_records_stray",
    ),
    "tests/backend/queries/test_whole_views.py": (
        "test_sessions",
        "test_the_latest_versions",
        "test_windows",
    ),
    "tests/backend/security/test_authenticated_reads.py": (
        "test_answers_need_the_scope_of_the_token_of_the_read",
    ),
    "tests/backend/storage/test_bulk_load.py": ("test_a_store_with_a_large_lag_is_bulk_loaded",),
    "tests/backend/storage/test_findings.py": ("test_the_last_findings_are_read",),
    "tests/backend/storage/test_rocksdb_store.py": ("test_a_writer_that_is_killed",),
    "tests/backend/wire/test_point_batch.py": (
        "test_answers_are_decoded_as_they_were_encoded",
        "test_groups_are_decoded_as_they_were_encoded",
    ),
    "tests/local/supply_chain/test_compose.py": ("test_the_compose_file_is_valid_in_each_profile",),
    "tests/local/test_recording.py": ("test_a_picture_shows_commands_and_their_output",),
    "tests/model/kinds/test_timed_stores.py": (
        "test_a_version_at_a_time_equals_that_of_the_model_or_is_gone",
        "test_every_history_equals_that_of_the_model",
    ),
    "tests/proxy/test_tls.py": ("test_a_reload_reads_the_certificate_again_and_loses_no_read",),
    "tests/proxy/test_uris.py": (
        "test_numbers_and_documents_are_encoded_as_backends_do",
        "test_the_proxy_routes_by_the_key_that_backends_parse",
    ),
    "tests/queryable/cli/commands/test_stack.py": (
        "test_arguments_and_exit_code_are_passed_through",
    ),
    "tests/queryable/client/protocol/test_batches.py": (
        "test_batches_fit_the_limits_and_contain_every_key_once",
    ),
    "tests/queryable/client/test_connection_errors.py": (
        "test_responses_of_another_server",
        "test_timeout",
    ),
    "tests/queryable/client/test_connection_problems.py": ("test_problems_in_words",),
    "tests/queryable/client/test_package.py": ("test_types_are_precise_for_a_strict_type_checker",),
    "tests/queryable/test_wheel.py": (
        "test_the_client_works_with_only_the_wheel_installed",
        "test_the_wheel_has_all_files_of_its_packages_and_nothing_else",
    ),
    "tests/support/plugins/test_watchdog.py": (
        "test_a_hanging_test_fails_and_the_others_run",
        "test_a_run_without_events_ends",
        "test_a_worker_that_ignores_signals_is_replaced",
        "test_processes_started_by_a_test_can_be_interrupted",
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file, _, test = item.nodeid.partition("::")
        if test.partition("[")[0] in SLOW.get(file, ()):
            item.add_marker("slow")
