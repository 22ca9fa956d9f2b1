"""A pytest plugin: marks the slowest unit tests, which `make unit` leaves out.

They are listed by hand: those that took more than a second on a quiet machine with two cores.
"""

from __future__ import annotations

import pytest

SLOW = {
    "tests/backend/cluster/snapshots/test_waiting.py": (
        "test_the_time_in_the_queue_is_no_waiting",
    ),
    "tests/backend/cluster/test_peer_posts.py": ("test_silence_counts_from_the_last_byte",),
    "tests/backend/cluster/test_placement_histories.py": (
        "test_a_global_view_keeps_the_topology_small",
        "test_a_thousand_histories",
        "test_the_largest",
    ),
    "tests/backend/http/admin/test_document_threads.py": (
        "test_an_instance_that_hangs_delays_neither_copies_nor_commands",
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
    "tests/backend/ingest/test_appender.py": (
        "test_records_that_wait_for_the_broker_are_bounded_in_bytes",
    ),
    "tests/backend/ingest/test_dead_letters.py": (
        "test_ingest_waits_for_a_topic_that_does_not_work_a_tenth_of_the_time",
    ),
    "tests/backend/ingest/test_stream_time.py": ("test_a_replay_gives_the_same_result",),
    "tests/backend/queries/scans/test_any_partition.py": (
        "test_a_delete_counts_in_whichever_partition_it_lies",
    ),
    "tests/backend/queries/scans/test_moved_keys.py": (
        "test_keys_are_answered_from_both_partitions",
        "test_partitions_are_added_twice",
        "test_whatever_producers_do",
    ),
    "tests/backend/queries/scans/test_moved_versions.py": ("test_two_versions_from_the_same_time",),
    "tests/backend/queries/scans/test_scan_memory.py": ("test_memory_does_not_grow_with_the_view",),
    "tests/backend/queries/scans/test_scans.py": ("test_what_is_refused",),
    "tests/backend/queries/scans/test_scans_unavailable.py": (
        "test_a_store_that_is_let_go_under_the_scan",
    ),
    "tests/backend/queries/test_batch.py": (
        "test_a_batch_waits_for_a_schema",
        "test_a_body_that_is_no_batch",
        "test_a_key_of_another_format_fails_alone",
        "test_a_nested_key_fails_alone",
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
    "tests/backend/security/test_token_cache.py": ("test_the_memory_is_bounded_for_large_tokens",),
    "tests/backend/security/test_tokens.py": ("test_any_signed_token_is_accepted_or_refused",),
    "tests/backend/server/test_connection.py": ("test_a_closed_connection_is_garbage_collected",),
    "tests/backend/server/test_forwarded_reads.py": (
        "test_what_a_client_sends_meanwhile_is_bounded",
    ),
    "tests/backend/server/test_interpreter.py": (
        "test_the_collector_of_the_arbiter_leaves_existing_objects_alone",
    ),
    "tests/backend/storage/test_bulk_load.py": ("test_a_store_with_a_large_lag_is_bulk_loaded",),
    "tests/backend/storage/test_findings.py": ("test_the_last_findings_are_read",),
    "tests/backend/storage/test_rocksdb_store.py": ("test_a_writer_that_is_killed",),
    "tests/backend/wire/test_plain_requests.py": (
        "test_changed_requests_are_left_to_the_parser_or_read_in_the_same_way",
    ),
    "tests/backend/wire/test_point_batch.py": (
        "test_a_malformed_response_to_paths_is_refused",
        "test_a_truncated_or_longer_response_is_refused",
        "test_answers_are_decoded_as_they_were_encoded",
        "test_any_bytes_in_a_response_are_decoded_or_refused",
        "test_each_read_has_its_token",
        "test_groups_are_decoded_as_they_were_encoded",
    ),
    "tests/backend/wire/test_snapshot.py": ("test_a_transfer_stays_within_its_bandwidth",),
    "tests/bench/test_publish.py": ("test_page_plot_and_text_are_written",),
    "tests/deploy/test_prometheus.py": ("test_each_alert_fires_in_its_case_and_not_before",),
    "tests/local/supply_chain/test_compose.py": (
        "test_the_compose_file_is_valid_in_each_profile",
        "test_the_logs_of_the_proxy_are_rotated",
        "test_the_services_use_another_kafka_and_other_views",
    ),
    "tests/local/test_datasets.py": ("test_every_flight_is_a_record_with_its_row_as_json",),
    "tests/local/test_interrupts.py": ("test_only_the_first_signal_interrupts",),
    "tests/local/test_recording.py": ("test_a_picture_shows_commands_and_their_output",),
    "tests/local/test_supervisor.py": (
        "test_a_later_command_ends_them_too",
        "test_children_end_with_a_killed_parent",
        "test_the_other_processes_of_a_childs_session_are_ended",
        "test_they_are_ended_also_after_the_child_has_ended",
    ),
    "tests/model/formats/test_json_decoder.py": ("test_decodes_like_json_loads",),
    "tests/model/kinds/test_custom.py": ("test_a_bloom_filter_has_no_false_negatives",),
    "tests/model/kinds/test_timed_stores.py": (
        "test_a_version_at_a_time_equals_that_of_the_model_or_is_gone",
        "test_every_history_equals_that_of_the_model",
    ),
    "tests/model/test_times.py": ("test_greatest_and_inverted_bounds",),
    "tests/model/test_topology.py": ("test_member_metadata_is_decoded_as_it_was_encoded",),
    "tests/pipelines/test_reference.py": ("test_every_demo_view_has_a_reference",),
    "tests/proxy/test_tls.py": ("test_a_reload_reads_the_certificate_again_and_loses_no_read",),
    "tests/proxy/test_uris.py": (
        "test_numbers_and_documents_are_encoded_as_backends_do",
        "test_the_proxy_routes_by_the_key_that_backends_parse",
    ),
    "tests/queryable/cli/commands/test_instances.py": (
        "test_drain_goes_on_waiting_while_the_deployment_does_not_answer",
    ),
    "tests/queryable/cli/commands/test_stack.py": (
        "test_arguments_and_exit_code_are_passed_through",
        "test_relative_paths_of_settings_are_those_of_the_folder_of_the_command",
    ),
    "tests/queryable/cli/inspection/test_view_fields.py": ("test_window_size",),
    "tests/queryable/cli/interactive/test_shell.py": ("test_a_session",),
    "tests/queryable/cli/test_app.py": (
        "test_help_of_a_command_has_examples_and_fits_the_terminal",
    ),
    "tests/queryable/cli/test_odd_terminals.py": (
        "test_arguments_that_are_not_utf_8",
        "test_characters_that_the_encoding_does_not_have_are_escaped",
        "test_the_shell_prints_after_a_command_that_failed",
    ),
    "tests/queryable/cli/test_optional_dependencies.py": (
        "test_missing_package_says_what_to_install",
    ),
    "tests/queryable/client/protocol/test_batches.py": (
        "test_batches_fit_the_limits_and_contain_every_key_once",
    ),
    "tests/queryable/client/test_connection_errors.py": (
        "test_a_stream_of_a_server_that_hangs_is_opened_elsewhere",
        "test_a_stream_with_the_only_connection_outlasts_new_epochs",
        "test_responses_of_another_server",
        "test_timeout",
    ),
    "tests/queryable/client/test_connection_problems.py": ("test_problems_in_words",),
    "tests/queryable/client/test_package.py": ("test_types_are_precise_for_a_strict_type_checker",),
    "tests/queryable/test_wheel.py": (
        "test_a_backend_can_be_imported_with_only_the_wheel_installed",
        "test_the_client_works_with_only_the_wheel_installed",
        "test_the_wheel_has_all_files_of_its_packages_and_nothing_else",
    ),
    "tests/spark/supervision/test_checkpoint_errors.py": (
        "test_only_temporary_files_of_a_query_without_a_batch_are_deleted",
    ),
    "tests/support/plugins/test_watchdog.py": (
        "test_a_hanging_test_fails_and_the_others_run",
        "test_a_run_without_events_ends",
        "test_a_worker_that_ignores_signals_is_replaced",
        "test_processes_started_by_a_test_can_be_interrupted",
    ),
    "tests/system/ingest/test_gaps.py": (
        "test_a_gap_with_deleted_records_at_its_start_is_not_always_empty",
    ),
    "tests/system/upgrades/test_last_release.py": (
        "test_a_history_without_the_release_is_an_error_that_says_so",
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file, _, test = item.nodeid.partition("::")
        if test.partition("[")[0] in SLOW.get(file, ()):
            item.add_marker("slow")
