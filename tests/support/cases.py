"""What happens under pressure and at the limits: each case, what was decided, where it shows, which tests hold it."""

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.contracts.limits import (
    ARTIFACT_VERSIONS,
    CONTRIBUTION_DEBOUNCE_MS,
    ID_BYTES,
    MB,
    PART_BYTES,
    PART_STEPS,
    PARTITION_CONTRIBUTION_BYTES,
    PARTITION_SESSION_BYTES,
    PARTITION_WAITING_BYTES,
    PATTERN_COMPILED,
    PATTERN_CONTRIBUTIONS,
    SEGMENT_EVENTS,
    SESSION_SEGMENTS,
    SESSIONS_LIVE,
    TENANT_CONTRIBUTIONS,
    TENANT_DECISIONS,
    UNPACKED_BYTES,
    WAITING_BYTES,
    WAITING_EVENTS,
    WINDOW_MS,
)
from pipeline.retrieval.documents import TEXT
from pipeline.store.changes import PATTERN_SAMPLE, SEARCHED, SESSION_STEPS, TENANT_SAMPLE
from pipeline.store.materialiser import BLOCK_ARGUMENTS, BLOCK_BYTES, BLOCK_RECORDS
from pipeline.store.sources import SOURCES_BYTES
from pipeline.store.views import VIEWS_BYTES

_LONGEST_S = CONTRIBUTION_DEBOUNCE_MS * PATTERN_CONTRIBUTIONS // 1_000


class Case(NamedTuple):
    case: str
    happens: str
    shows: str
    """Counters and reasons, in backticks."""
    undo: str
    tests: Mapping[str, tuple[str, ...]]
    """File below tests/ → what holds it there."""


CASES = (
    Case(
        "ids as long as an event may be",
        f"an id or event type of more than {ID_BYTES} bytes is refused with its path, in an event and in a request: "
        "state, caches and Redis hold a fixed number of bytes for each",
        "`id_too_long`",
        "send the hash of what the id is made of; shorten the type",
        {
            "pure/intake/test_ids.py": ("test_a_longer_one_is_refused_by_its_path_and_its_text_is_not_told",),
            "pure/service/test_ids.py": ("test_an_id_of_a_request", "test_a_tenant"),
        },
    ),
    Case(
        "a session that never ends",
        f"every event comes out; a segment has {SEGMENT_EVENTS} events, feedback reaches the last {SESSION_SEGMENTS}",
        "`segment_out_of_reach`",
        "end sessions, or send feedback in time",
        {
            "pressure/test_memory.py": (
                "test_a_sessions_state_is_as_large_after_many_events_as_after_some",
                "test_memory_is_flat_over_a_session_of_a_million_events",
            ),
        },
    ),
    Case(
        "ten thousand new sessions a second",
        f"a partition remembers {SESSIONS_LIVE:,} sessions: one more, and of the tenant that has the most the "
        "longest silent one has its say and is forgotten; should it go on, it counts as another session, behind a gap",
        "`session_forgotten_early`",
        "more partitions, in a `v2` topic and a replay",
        {
            "pressure/test_sessions_at_their_bounds.py": (
                "test_one_session_more_than_a_partition_remembers_ends_the_longest_silent_one",
                "test_who_is_forgotten_does_not_depend_on_batches_and_restarts",
                "test_a_tenant_at_its_share_takes_no_other_tenants_place",
            ),
            "pressure/test_memory.py": ("test_memory_is_flat_over_new_sessions_without_end",),
        },
    ),
    Case(
        "sessions that remember much",
        f"the traces and closed segments of a partition have {PARTITION_SESSION_BYTES // MB:,} MB as they are written, "
        "and some third of it in memory while they rest: beyond it, of the tenant that has the most the longest silent "
        "session has its say and is forgotten; no tenant within its share loses one",
        "`session_forgotten_heavy`",
        "more partitions, in a `v2` topic and a replay",
        {
            "pressure/test_bytes_of_sessions.py": (
                "test_all_that_sessions_remember_is_bounded_and_no_tenant_within_its_share_loses_any_of_it",
                "test_who_gives_way_does_not_depend_on_batches_and_restarts",
                "test_what_is_counted_is_what_is_remembered",
            ),
        },
    ),
    Case(
        "a gap with much behind it",
        f"{WAITING_EVENTS:,} events or {WAITING_BYTES // MB} MB of a session wait, {WINDOW_MS // 1000} s at most, and "
        f"{PARTITION_WAITING_BYTES // MB} MB of a partition; if more comes, the first of them go out before their "
        "time, those of the fullest session of the tenant that has most waiting",
        "`window_full`",
        "send events in their order",
        {
            "pressure/test_sessions_at_their_bounds.py": (
                "test_a_window_holds_no_more_bytes_than_it_may_and_its_events_still_come_out_in_order",
                "test_all_that_waits_in_a_partition_is_bounded_and_who_has_most_of_it_waits_no_longer",
            ),
        },
    ),
    Case(
        "a broker's clock leaps ahead and is set right again",
        "append times are the only clock: what came behind a gap meanwhile waits until they have come as far again, "
        "everything else goes on",
        "`hmx_partition_waiting`, `hmx_partition_waiting_sessions`",
        "let brokers' clocks be slewed, not stepped",
        {
            "pressure/test_sessions_at_their_bounds.py": (
                "test_what_came_behind_a_gap_while_the_clock_was_ahead_comes_out_when_append_times_are_there_again",
            ),
        },
    ),
    Case(
        "one tenant with nearly all the traffic",
        "records are taken in the log's order, so others wait as long as it does; what they learn is the same",
        "`hmx_partition_lag_seconds`",
        "more workers, up to one per partition; a deployment of its own under another `HMX_TOPIC_PREFIX`",
        {
            "pressure/test_large_and_lopsided_traffic.py": (
                "test_beside_a_tenant_with_nine_tenths_of_the_traffic_another_learns_what_it_would_learn_alone",
            ),
        },
    ),
    Case(
        "one pattern that every session hits",
        f"it keeps an even sample of {PATTERN_CONTRIBUTIONS:,} contributions, {PATTERN_COMPILED:,} of which count "
        "while the others wait for the place of what is withdrawn, and compiles after "
        f"{CONTRIBUTION_DEBOUNCE_MS} ms for each that it has, {_LONGEST_S} s at most; "
        "barriers wait for nothing",
        "`contribution_out_of_sample`, `sampled` in the artifact's metadata",
        "none needed: `hmx wait` compiles at once",
        {
            "pressure/test_memory.py": ("test_memory_is_flat_over_a_pattern_that_every_one_of_many_sessions_hits",),
            "pressure/test_patterns_at_their_bounds.py": (
                "test_the_more_a_pattern_knows_the_longer_it_gathers_before_it_speaks",
                "test_a_barrier_waits_for_no_pause",
            ),
            "pure/stages/test_patterns.py": ("test_at_its_bound_a_pattern_keeps_the_same_sample_whatever_came_first",),
        },
    ),
    Case(
        "a tenant with patterns without number",
        f"its patterns together keep an even sample of {TENANT_CONTRIBUTIONS:,} contributions: what is well supported "
        "stays, one-offs go",
        "`contribution_out_of_tenant_sample`, `pattern_forgotten`",
        "mask what makes every error another one; replay under another prefix",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_at_its_bound_a_tenant_keeps_the_same_sample_whatever_came_first",
                "test_a_flood_of_one_tenants_patterns_takes_no_place_from_another",
                "test_a_pattern_that_a_flood_leaves_no_evidence_is_forgotten_with_all_its_versions",
            ),
        },
    ),
    Case(
        "contributions of many bytes, or of many tenants",
        f"a partition keeps {PARTITION_CONTRIBUTION_BYTES // MB:,} MB of them as they are written: beyond it the "
        "highest ranks of the tenant that has the most go; no tenant within its share loses one, however many there "
        "are",
        "`contribution_out_of_partition`, `pattern_forgotten`",
        "more partitions, in a `v2` topic and a replay",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_contributions_of_a_partition_are_bounded_in_bytes_and_no_tenant_within_its_share_loses_any",
                "test_which_contributions_go_does_not_depend_on_batches_and_restarts",
            ),
        },
    ),
    Case(
        "decisions of operators without number",
        f"of a tenant {TENANT_DECISIONS:,} patterns may be archived or imported, each as often as anybody likes: one "
        "more pattern is not taken, and another tenant's room is its own",
        "`decision_out_of_room`",
        "a tenant of its own for what is imported",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_a_tenants_decisions_are_bounded_and_take_no_room_of_another",
            ),
        },
    ),
    Case(
        "an artifact with versions without number",
        f"of each pattern {ARTIFACT_VERSIONS} that are no longer live stay in the topic, older ones are erased",
        "`artifact_erased`",
        "read the artifacts topic within 7 days of their erasure",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_of_a_long_chain_the_oldest_versions_are_erased_and_counted",
            ),
        },
    ),
    Case(
        "events of 1 MB",
        "they come out whole; one byte more is rejected",
        "`too_large`",
        "send less content",
        {
            "pressure/test_large_and_lopsided_traffic.py": (
                "test_events_of_one_megabyte_come_out_whole_and_in_order_and_one_byte_more_is_rejected",
            ),
        },
    ),
    Case(
        "nobody reads the outputs",
        "nothing waits for a reader: episodes and evidence go after 30 days, the rest is compacted",
        "`hmx_materialiser_lag_records`; what it missed: `hmx_materialiser_lost_records`",
        "start the reader; with the log still there, replay",
        {
            "journey/test_reference_broker.py": ("test_traffic_has_the_outcomes_and_the_order_of_the_specification",),
            "stack/test_store_materialiser.py": ("test_what_retention_took_is_passed_over",),
        },
    ),
    Case(
        "Redis has no room",
        "the materialiser waits, nothing is written in part, packs stay as they are",
        '`hmx_materialiser_retries{cause="redis"}`, `/readyz` of the materialiser',
        "give Redis memory",
        {
            "stack/test_store_materialiser.py": (
                "test_a_redis_without_room_is_waited_for_and_nothing_is_written_in_part",
            ),
        },
    ),
    Case(
        "Redis fails over, loads, or answers MOVED, READONLY or LOADING",
        "processes wait, 0.2 s at first, 10 s at most, each pause cut at random by up to a half; the service answers "
        "503 `redis_unavailable` with `Retry-After`, or goes on reading where the server still reads",
        '`hmx_materialiser_retries{cause="redis"}`, `/readyz` of the materialiser and of the service',
        "none needed",
        {
            "stack/test_redis_failover.py": (
                "test_the_materialiser_waits_for_a_redis_that_refuses_and_then_writes_everything_once",
                "test_a_connection_that_breaks_in_a_transaction_leaves_nothing_lost_or_doubled",
                "test_the_service_answers_503_with_retry_after_and_names_what_is_wrong",
            ),
        },
    ),
    Case(
        "Redis has a `maxmemory-policy` that evicts",
        "the materialiser and the service refuse to start; one that runs already stops writing, or is not ready, until "
        "the policy is `noeviction`",
        "the message and `/readyz`, with the command",
        "`redis-cli CONFIG SET maxmemory-policy noeviction`",
        {
            "stack/test_redis_failover.py": (
                "test_an_evicting_policy_is_refused_at_start_with_the_command_that_mends_it",
                "test_a_policy_that_becomes_evicting_stops_writing_until_it_is_mended",
            ),
        },
    ),
    Case(
        "Redis is empty, or is being filled",
        "packs are answered with what is there and say `memory_complete: false` in `metadata`, with each partition's "
        "position and the percentage; with `require_complete: true` they are refused with 503 `memory_incomplete`",
        "the header `X-HMX-Memory-Complete` of every answer out of memory, `/readyz`",
        "none needed while a materialiser runs",
        {
            "stack/test_redis_failover.py": ("test_while_redis_is_being_filled_packs_say_so_or_refuse",),
        },
    ),
    Case(
        "a record in Redis is altered or lost: an artifact, a knowledge record, a contribution, an event",
        "it is never served: a pack leaves it out and names it in `metadata.provenance_failed`, asking for it by id is "
        "answered with 503 `provenance_failed`; the materialiser finds it by the digest beside it and restores it from "
        "its topic",
        "`hmx_provenance_failed`, `hmx_materialiser_mended`, `/readyz` of the service, by kind and id",
        "none needed",
        {
            "stack/test_redis_damage.py": (
                "test_a_corrupt_record_costs_one_entry_and_is_named_and_not_served",
                "test_a_key_of_any_kind_that_is_damaged_is_never_a_5xx_and_is_mended",
            ),
        },
    ),
    Case(
        "keys of Redis' index or lists are deleted, evicted, cut or altered",
        "the materialiser, which looks through memory with 3 % of a thread, finds it; all of memory is forgotten and "
        "filled anew, and packs say `memory_complete: false` meanwhile",
        '`hmx_materialiser_mended{kind="all"}`, `hmx_provenance_failed`',
        "none needed; find out who writes to this Redis",
        {
            "stack/test_redis_damage.py": ("test_a_key_of_any_kind_that_is_damaged_is_never_a_5xx_and_is_mended",),
        },
    ),
    Case(
        "a topic that Redis was filled from is deleted and created again",
        "what came from the old one is forgotten, a thousand keys at a time, and built anew from the new one; packs say"
        " meanwhile that memory is not complete",
        "`hmx_materialiser_recreated_topics`",
        "none needed",
        {
            "stack/test_store_materialiser.py": ("test_what_came_from_topics_that_were_created_again_is_built_anew",),
            "stack/test_store_recreated.py": ("test_no_go_looks_at_more_than_a_page_of_keys",),
        },
    ),
    Case(
        "a session, an event or a block without end in Redis",
        f"of a session the last {SESSION_STEPS} steps stay; of an event {TEXT:,} characters are searched; a block has"
        f" {BLOCK_RECORDS:,} records, {BLOCK_BYTES // MB} MB or some {BLOCK_ARGUMENTS:,} arguments",
        "`hmx_materialiser_block_seconds`",
        "none needed",
        {
            "stack/test_store.py": (
                "test_a_session_keeps_its_last_steps_however_the_blocks_are_cut",
                "test_ids_as_long_as_they_may_be_are_stored_and_found",
            ),
            "stack/test_materialisers_race.py": ("test_a_block_is_cut_by_its_arguments_too",),
        },
    ),
    Case(
        "episodes without end in Redis",
        f"a tenant's index has {SEARCHED:,} episodes, for a string of Redis ends at 512 MB: what comes then is found "
        "by its id and in its session, and no search finds it",
        "`hmx_materialiser_unsearched`; the tenant's key …:unsearched in Redis counts its own",
        "give what is searched apart a tenant of its own",
        {"stack/test_full_index.py": ("test_a_full_index_takes_no_more_episodes_and_everything_else_goes_on",)},
    ),
    Case(
        "contributions without end in Redis",
        f"of a pattern {PATTERN_SAMPLE:,} stay, of a tenant {TENANT_SAMPLE:,}: twice the sample that artifacts are "
        "compiled from, so what a live artifact names is there",
        "the others are not found by their ids",
        "none needed",
        {
            "stack/test_store_samples.py": (
                "test_of_a_pattern_and_of_a_tenant_the_lowest_ranks_stay_in_any_order_and_in_any_blocks",
                "test_what_a_live_artifact_names_is_there_also_where_the_sample_is_full",
            ),
        },
    ),
    Case(
        "long texts and names that nobody has seen before",
        "what a process works out of a text it remembers up to so many bytes and not up to so many texts; what was "
        "asked longest ago is worked out again; of unknown tenants a process remembers little, and not for long",
        "answers are the same",
        "none needed",
        {
            "pure/contracts/test_remembered.py": (
                "test_texts_that_somebody_else_chooses_fill_no_process",
                "test_no_other_cache_counts_entries_alone_where_a_text_is_asked_for",
            ),
            "pure/service/test_bounds.py": (
                "test_tenants_of_which_nothing_is_known_take_room_and_are_forgotten",
                "test_a_catalogue_counts_no_less_than_it_takes",
                "test_the_tenant_with_the_most_figures_loses_its_oldest_and_no_other_any",
            ),
        },
    ),
    Case(
        "more memory than a process of the service can remember",
        f"it keeps {VIEWS_BYTES // MB} MB of what it has read of the index, and {SOURCES_BYTES // MB} MB of sources; "
        "what was asked longest ago is read again, and the answer is the same; a million documents with vectors of "
        "384 numbers take some 550 MB of it",
        "packs take longer, each one where what is asked in turn does not fit beside each other: seconds, with vectors "
        "of a million documents",
        "more processes, each with tenants of its own",
        {
            "stack/test_search.py": (
                "test_other_tenants_and_terms_are_forgotten_first_and_read_again",
                "test_what_is_remembered_answers_as_a_process_that_has_just_begun",
            ),
        },
    ),
    Case(
        "a broker's disk is full",
        "the broker ends and is started again, producers are refused, workers wait; nothing is lost",
        "the broker's restarts, what producers are told",
        "make room",
        {
            "pressure/test_full_disk.py": ("test_a_full_disk_stops_everything_and_loses_nothing",),
        },
    ),
    Case(
        "retention overtakes a stopped worker",
        "it goes on with what is left; each record that is gone is counted",
        "`lost_to_retention`",
        "longer retention before the next time",
        {
            "crash/test_log_faults.py": ("test_what_retention_takes_before_it_was_read_is_counted",),
        },
    ),
    Case(
        "the events topic is deleted and created again",
        "the worker refuses to go on and ends with exit code 5",
        "its last log line",
        "recreate state and output topics too, or another `HMX_TOPIC_PREFIX`",
        {
            "crash/test_log_faults.py": ("test_a_log_that_was_deleted_and_created_again_is_refused",),
        },
    ),
    Case(
        "a record that makes a fold raise",
        "raised twice alike on the same state, it is rejected; other errors end the worker",
        "`poison`",
        "report it; after the fix: replay",
        {
            "pure/stages/test_executor.py": ("test_a_poison_record_is_rejected_and_leaves_nothing_of_itself",),
        },
    ),
    Case(
        "a record that kills every worker",
        "after two deaths at one place records are folded ever fewer at a time, at last one by one while the process "
        "does nothing else; one that has killed three workers alone is rejected, and the decision is kept",
        "`deadly`",
        "report it; after the fix: replay",
        {
            "crash/test_deadly_records.py": (
                "test_exactly_what_kills_is_condemned_also_among_other_deaths",
                "test_a_replay_that_knows_what_is_condemned_says_the_same_and_survives",
                "test_deaths_that_have_other_causes_condemn_nothing",
            ),
        },
    ),
    Case(
        "something that Kafka refuses for good, such as a record larger than its topic takes",
        "records are folded fewer at a time until it is known whose it is: a record whose episode, dead letter or "
        "state is refused becomes a dead letter without its bytes, a contribution or an artifact is left out; the "
        "decision is kept",
        "`output_refused`, `output_left_out`",
        "`hmx topics plan` shows where a topic takes less than its file says; mend it, then send the record again",
        {
            "crash/test_refused_outputs.py": (
                "test_exactly_the_records_whose_episodes_kafka_refuses_are_dead_letters",
                "test_evidence_that_kafka_refuses_is_left_out_and_no_record_pays_for_it",
                "test_a_worker_whose_topics_take_less_rejects_what_they_refuse_and_goes_on",
            ),
        },
    ),
    Case(
        "a record batch that becomes gigabytes when it is unpacked",
        f"it is unpacked as far as {UNPACKED_BYTES // MB} MB and no further; each of its records is rejected, the "
        "partition goes on",
        "`unreadable_batch`",
        "send smaller batches",
        {
            "crash/test_batches_without_end.py": (
                "test_a_batch_that_unpacks_to_too_much_gives_every_record_its_place_and_nothing_else",
                "test_a_worker_outlives_a_batch_of_hundreds_of_megabytes_and_rejects_its_records",
            ),
        },
    ),
    Case(
        "content that cannot be mined",
        "the event is released all the same, mining leaves it out",
        "`step_not_mined`, `segment_not_mined`, `pattern_not_compiled`",
        "report it; after the fix: replay",
        {
            "pure/stages/test_patterns.py": (
                "test_a_pattern_that_cannot_be_compiled_keeps_what_it_said_and_stops_nothing",
            ),
        },
    ),
    Case(
        "a barrier over many sessions or patterns, or many that fall silent together",
        f"they speak one after the other; after {PART_STEPS:,} of them, or {PART_BYTES // MB} MB, a transaction ends "
        "and the next begins, and the barrier passes with the last",
        '`hmx_stage_transactions{result="committed"}`',
        "none needed",
        {
            "pressure/test_barriers_in_parts.py": (
                "test_a_barrier_over_many_sessions_is_cut_into_parts_and_passes_with_the_last",
                "test_sessions_that_fall_silent_together_speak_in_parts",
                "test_a_worker_that_dies_between_two_parts_of_a_barrier_leaves_the_rest_to_the_next",
            ),
        },
    ),
    Case(
        "a barrier that does not come from every partition",
        "`hmx wait` says where it is lacking; it is forgotten after an hour",
        "`barrier_lost`",
        "`hmx wait` again",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_a_barrier_that_never_came_from_every_partition_is_counted_when_it_is_forgotten",
            ),
        },
    ),
)
