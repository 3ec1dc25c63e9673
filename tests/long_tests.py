"""Tests that take more than a quarter of a minute and prove once more what a shorter one proves.

Mostly the same killing on the other database. `make test` leaves them out, since it has to end
within half an hour on two cores; `make test-long` and `make coverage` run them.
"""

from typing import Any, Final

# Whole files: brute force of what has closed forms, oracles and invariants in others.
LONG_FILES: Final = ("tests/model/test_pipes_by_hand.py", "tests/model/test_steps_by_hand.py")
# Tests of use cases run on both databases. On PostgreSQL they are in `make test`; on the embedded
# file what they call is there by the tests of the API and of the commands, which use it.
ON_BOTH_DATABASES: Final = "tests/jobs/"

LONG: Final = frozenset(
    {
        # Seconds are compared, which other processes on the same cores take part in.
        "tests/db/test_deletions.py::test_no_writer_and_no_reader_waits_long[sqlite]",
        "tests/db/test_deletions.py::test_no_writer_and_no_reader_waits_long[postgresql]",
        # What a viewer may not do is refused one by one in test_access.py.
        "tests/api/test_conformance.py::test_every_operation_keeps_its_promises_to_a_viewer",
        # The same on PostgreSQL, or on the embedded file, is in `make test`.
        "tests/jobs/test_engine_kills.py::test_killed_at_every_named_point[sqlite]",
        # Kills at every named point are in `make test`.
        "tests/jobs/test_engine_kills.py::test_killed_at_random_while_it_computes[postgresql-3]",
        "tests/jobs/test_engine_kills.py::test_killed_at_random_while_it_computes[sqlite-3]",
        "tests/jobs/test_engine_kills.py::test_killed_while_a_cancellation_is_carried_out[postgresql]",
        "tests/cli/test_schedule_kills.py::test_killed_at_every_step_of_a_night[sqlite]",
        (
            "tests/cli/test_graceful_stop.py::"
            "test_a_batch_is_drained_and_goes_on_at_the_next_start[postgresql]"
        ),
        "tests/jobs/test_export_kills.py::test_killed_while_it_makes_a_file[postgresql]",
        "tests/jobs/test_deletions.py::test_a_deletion_outlives_kill_9[postgresql]",
        "tests/jobs/test_engine_faults.py::test_a_poisoned_chunk_fails_alone[postgresql]",
        "tests/api/test_withheld_costs.py::test_no_operation_shows_money_without_costs_read[sqlite]",
        (
            "tests/jobs/test_volume_causes.py::"
            "test_where_nothing_or_one_input_moved_nothing_is_evaluated[postgresql]"
        ),
        "tests/load/test_load.py::test_no_write_of_32_clients_is_lost[sqlite]",
        # On PostgreSQL, where requests meet on several connections, they are in `make test`.
        "tests/api/test_waits.py::test_waiting_requests_hold_no_threads[sqlite]",
        "tests/api/test_races.py::test_of_32_posts_with_one_key_one_makes_a_batch[sqlite]",
        "tests/api/test_races.py::test_what_is_known_is_not_sent_again[sqlite]",
        "tests/api/test_audited_changes.py::test_every_change_leaves_one_event[sqlite]",
        # 300 000 rows, of which shorter files hold every kind
        "tests/jobs/test_export_making.py::test_memory_does_not_grow_with_the_rows",
        # Variants of what stands beside them
        (
            "tests/jobs/test_engine_faults.py::"
            "test_the_engines_file_may_be_lost_or_too_new[older copy of ours]"
        ),
        "tests/cli/test_demo.py::test_demo_again_on_the_same_file_reuses_everything",
        "tests/cli/test_backup.py::test_a_copy_of_a_running_batch_goes_on_to_the_same_bits",
        "tests/jobs/test_engine_workers.py::test_a_worker_whose_connection_is_cut_ends_itself",
        "tests/jobs/test_engine_workers.py::test_a_drained_worker_hands_over_and_loses_nothing",
        (
            "tests/cli/test_workers.py::"
            "test_a_worker_alone_waits_for_the_tables_and_starts_anew_after_a_crash"
        ),
        "tests/jobs/test_engine_workers.py::test_two_workers_share_a_batch_and_give_the_same_bits",
        "tests/jobs/test_engine_workers.py::test_within_a_team_the_more_urgent_batch_comes_first",
        "tests/jobs/test_engine_workers.py::test_a_deadline_that_passes_keeps_what_is_computed",
        "tests/cli/test_backup.py::test_postgresql_names_commands_that_work",
        "tests/cli/test_demo.py::test_demo_on_a_database_with_keys_prints_what_works_there",
        # Every second group of zones is in `make test`, and each unusual change.
        (
            "tests/jobs/test_occurrences.py::"
            "test_every_zone_over_two_years_agrees_with_every_minute_looked_at[the others]"
        ),
        # A file of 1 GB, whose parts are read by shorter ones
        "tests/jobs/test_calibration_work.py::test_a_gigabyte_in_bounded_memory",
        # All 128 sets of sources; every pair and every kind of row is in `make test`.
        ("tests/model/test_support_matrix.py::test_every_combination_is_computed_as_the_page_says"),
        # Load
        "tests/cli/test_slow_readers.py::test_readers_who_take_nothing_hold_up_nobody",
        # 120 cases of the same are in `make test`.
        (
            "tests/calibration/test_trace_overlap.py::"
            "test_the_truth_is_inside_at_the_stated_rate_in_many_cases"
        ),
        (
            "tests/calibration/test_interval_rates.py::"
            "test_intervals_keep_their_rate_in_a_hundred_tables_of_every_kind"
        ),
    }
)


def is_long(nodeid: str, database: Any) -> bool:
    """Whether `make test` leaves the test out; `database` is the kind it runs on, if it has one."""
    if nodeid in LONG or nodeid.startswith(LONG_FILES):
        return True
    is_repeated = database == "sqlite" and nodeid.startswith(ON_BOTH_DATABASES)
    return is_repeated and nodeid.replace("sqlite", "postgresql") not in LONG
