"""What happens under pressure and at the limits: each case, what was decided, where it shows, which tests hold it."""

from collections.abc import Mapping
from typing import NamedTuple

from hmx_pipeline.contracts.limits import (
    ARTIFACT_VERSIONS,
    CONTRIBUTION_DEBOUNCE_MS,
    ID_BYTES,
    MB,
    OWNERS_KEPT,
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
from hmx_pipeline.retrieval.searchable import TEXT
from hmx_pipeline.store.block_builder import BLOCK_ARGUMENTS, BLOCK_BYTES, BLOCK_RECORDS
from hmx_pipeline.store.changes import PATTERN_SAMPLE, SEARCHED, SESSION_STEPS, TENANT_SAMPLE
from hmx_pipeline.store.source_cache import SOURCES_BYTES
from hmx_pipeline.store.tenant_index import VIEWS_BYTES

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
        "an id is very long",
        f"An id or event type of more than {ID_BYTES} bytes is rejected with its JSON path, in an event and in a "
        "request. So state, caches and Redis hold a fixed number of bytes for each.",
        "`id_too_long`",
        "send a hash of what the id is made of; shorten the type",
        {
            "pure/intake/test_ids.py": ("test_a_longer_one_is_refused_by_its_path_and_its_text_is_not_told",),
            "pure/service/test_ids.py": ("test_an_id_of_a_request", "test_a_tenant"),
        },
    ),
    Case(
        "a session never ends",
        f"Every event is released. A segment ends after {SEGMENT_EVENTS} events. Late feedback reaches the last "
        f"{SESSION_SEGMENTS} segments.",
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
        "more sessions of subjects are forgotten than can be remembered",
        f"A partition remembers whose {OWNERS_KEPT:,} forgotten sessions are. Beyond it the subject with the most, of "
        "the tenant with the most, loses its oldest. Sessions that a bound key wrote stay that subject's. For others, "
        "what the tenant then sends without a name in a session that is new is seen by nobody.",
        "`session_owner_lost`",
        "name the subject in every event",
        {
            "pure/test_privacy.py": (
                "test_a_session_whose_owner_is_not_known_any_more_is_nobodys_and_teaches_nothing",
                "test_a_subject_with_many_sessions_loses_its_own_owners_alone",
            ),
        },
    ),
    Case(
        "ten thousand new sessions arrive a second",
        f"A partition remembers {SESSIONS_LIVE:,} sessions. For one more, the tenant with the most sessions loses "
        "its longest silent one: that session contributes what it has and is forgotten. If it continues, it "
        "counts as a new session behind a gap.",
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
        "sessions hold much data",
        f"Traces and closed segments of a partition have at most {PARTITION_SESSION_BYTES // MB:,} MB as they are "
        "written, and about a third of that in memory while they rest. Beyond it the tenant with the most loses "
        "its longest silent session. A tenant within its share loses none.",
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
        "much waits behind a gap",
        f"{WAITING_EVENTS:,} events or {WAITING_BYTES // MB} MB of a session wait, for {WINDOW_MS // 1000} s at "
        f"most, and {PARTITION_WAITING_BYTES // MB} MB of a partition. If more arrive, the first are released "
        "before their time, from the fullest session of the tenant that has most waiting.",
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
        "a broker's clock jumps forward and is later corrected",
        "Append times are the only clock. Events that arrived behind a gap meanwhile wait until append times "
        "reach that point again. Everything else continues.",
        "`hmx_partition_waiting`, `hmx_partition_waiting_sessions`",
        "slew brokers' clocks, do not step them",
        {
            "pressure/test_sessions_at_their_bounds.py": (
                "test_what_came_behind_a_gap_while_the_clock_was_ahead_comes_out_when_append_times_are_there_again",
            ),
        },
    ),
    Case(
        "one tenant has nearly all the traffic",
        "Records are processed in the log's order, so other tenants wait as long as it does. What they learn is "
        "the same.",
        "`hmx_partition_lag_seconds`",
        "more workers, up to one per partition; a deployment of its own under another `HMX_TOPIC_PREFIX`",
        {
            "pressure/test_large_and_lopsided_traffic.py": (
                "test_beside_a_tenant_with_nine_tenths_of_the_traffic_another_learns_what_it_would_learn_alone",
            ),
        },
    ),
    Case(
        "every session contributes to one pattern",
        f"The pattern keeps an even sample of {PATTERN_CONTRIBUTIONS:,} contributions. {PATTERN_COMPILED:,} of "
        f"them count; the others replace those that are withdrawn. It compiles after {CONTRIBUTION_DEBOUNCE_MS} "
        f"ms for each contribution, {_LONGEST_S} s at most. Barriers do not wait for that.",
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
        "a tenant has ever more patterns",
        f"Its patterns together keep an even sample of {TENANT_CONTRIBUTIONS:,} contributions. What is well "
        "supported stays, patterns that occurred once go.",
        "`contribution_out_of_tenant_sample`, `pattern_forgotten`",
        "mask what makes every error a new one; replay under another prefix",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_at_its_bound_a_tenant_keeps_the_same_sample_whatever_came_first",
                "test_a_flood_of_one_tenants_patterns_takes_no_place_from_another",
                "test_a_pattern_that_a_flood_leaves_no_evidence_is_forgotten_with_all_its_versions",
            ),
        },
    ),
    Case(
        "contributions are large, or there are many tenants",
        f"A partition keeps {PARTITION_CONTRIBUTION_BYTES // MB:,} MB of contributions as they are written. "
        "Beyond it the tenant with the most loses the ones with the highest ranks. A tenant within its share "
        "loses none.",
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
        "operators archive or import ever more",
        f"{TENANT_DECISIONS:,} patterns of a tenant may be archived or imported, each as often as you like. One "
        "more pattern is not taken. Other tenants have room of their own.",
        "`decision_out_of_room`",
        "import into a tenant of its own",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_a_tenants_decisions_are_bounded_and_take_no_room_of_another",
            ),
        },
    ),
    Case(
        "an artifact has ever more versions",
        f"{ARTIFACT_VERSIONS} versions of a pattern that are no longer live stay in the topic. Older ones are erased.",
        "`artifact_erased`",
        "read the artifacts topic within 7 days of their erasure",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_of_a_long_chain_the_oldest_versions_are_erased_and_counted",
            ),
        },
    ),
    Case(
        "an event has 1 MB",
        "It is released whole. One byte more is rejected.",
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
        "Nothing waits for a reader. Episodes and evidence are deleted after 30 days, the other topics are compacted.",
        "`hmx_materialiser_lag_records`; what it missed: `hmx_materialiser_lost_records_total`",
        "start the reader; while the log is still there, replay",
        {
            "journey/test_same_artifacts.py": (
                "test_interleaved_doubled_and_with_the_worker_killed_the_same_artifacts_are_active",
            ),
            "stack/test_store_materialiser.py": ("test_what_retention_took_is_passed_over",),
        },
    ),
    Case(
        "Redis has no room",
        "The materialiser waits. Nothing is written in part, and packs stay as they are.",
        '`hmx_materialiser_retries_total{cause="redis"}`, `/readyz` of the materialiser',
        "give Redis more memory",
        {
            "stack/test_store_materialiser.py": (
                "test_a_redis_without_room_is_waited_for_and_nothing_is_written_in_part",
            ),
        },
    ),
    Case(
        "Redis fails over, loads, or answers MOVED, READONLY or LOADING",
        "Processes retry, after 0.2 s at first and 10 s at most, each pause shortened at random by up to a half. "
        "The service answers 503 `redis_unavailable` with `Retry-After`, or continues to read where the server "
        "still reads.",
        '`hmx_materialiser_retries_total{cause="redis"}`, `/readyz` of the materialiser and of the service',
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
        "The materialiser and the service refuse to start. A running materialiser stops writing and a running "
        "service is not ready, until the policy is `noeviction`.",
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
        "Packs hold what is there and say `memory_complete: false` in `metadata`, with each partition's position "
        "and the percentage. With `require_complete: true` they are refused with 503 `memory_incomplete`.",
        "the header `X-HMX-Memory-Complete` of every answer out of memory, `/readyz`",
        "none needed while a materialiser runs",
        {
            "stack/test_redis_failover.py": ("test_while_redis_is_being_filled_packs_say_so_or_refuse",),
        },
    ),
    Case(
        "Redis is filled again after the retention of episodes or evidence has passed",
        "With `HMX_ARCHIVE`, all of memory comes back. Without it, what the topics had deleted is not in memory. "
        "Artifacts and knowledge stay: their topics are compacted.",
        "`/readyz`, and memory_cut in a pack's metadata: topic and number of records",
        "set `HMX_ARCHIVE`, or keep the topics for longer: `retention.ms` in `topics/`",
        {
            "stack/test_archive.py": ("test_the_same_memory_comes_back_after_the_topics_retention_has_passed",),
            "stack/test_store_materialiser.py": ("test_memory_that_is_filled_after_retention_says_what_it_lacks",),
        },
    ),
    Case(
        "the archive cannot be written or read, or a file of it is altered or gone",
        "Memory is served as it is. Archiving goes on once it can. A refill that needs the file waits for it, and "
        "leaves nothing out.",
        '`hmx_materialiser_retries_total{cause="archive"}`, `hmx_archived_timestamp_seconds`, `/readyz` of the '
        "materialiser",
        "mend the folder or the object store; put the file back",
        {
            "stack/test_archive_once.py": (
                "test_a_file_that_is_gone_is_waited_for_and_named",
                "test_every_record_is_archived_once_wherever_it_is_interrupted",
            ),
        },
    ),
    Case(
        "retention overtakes the archive",
        "What is gone is in no archive. The next refill is without it.",
        "`hmx_archive_lost_records`; after a refill `/readyz` and memory_cut in packs",
        "archive more often than the topics' retention: `HMX_ARCHIVE_S`",
        {
            "stack/test_archive_once.py": ("test_what_the_archive_lacks_is_said_by_packs_and_readiness",),
        },
    ),
    Case(
        "an artifact, knowledge record, contribution or event in Redis is altered or lost",
        "It is never served. A pack leaves it out and names it in `metadata.provenance_failed`; asking for its "
        "id gives 503 `provenance_failed`. The materialiser finds it by the digest beside it and restores it "
        "from its topic.",
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
        "keys of the index or lists in Redis are deleted, evicted, cut or altered",
        "The materialiser checks memory with 3 % of a thread, 0.3 % once nothing has come for a minute, and finds it. "
        "All of memory is built anew, and "
        "packs say `memory_complete: false` meanwhile.",
        '`hmx_materialiser_mended{kind="all"}`, `hmx_provenance_failed`',
        "none needed; find out who writes to this Redis",
        {
            "stack/test_redis_damage.py": ("test_a_key_of_any_kind_that_is_damaged_is_never_a_5xx_and_is_mended",),
        },
    ),
    Case(
        "a topic that Redis was filled from is deleted and created again",
        "What came from the old topic is forgotten, a thousand keys at a time, and built anew from the new one. "
        "Packs say meanwhile that memory is not complete.",
        "`hmx_materialiser_recreated_topics`",
        "none needed",
        {
            "stack/test_store_materialiser.py": ("test_what_came_from_topics_that_were_created_again_is_built_anew",),
            "stack/test_store_recreated.py": ("test_no_go_looks_at_more_than_a_page_of_keys",),
        },
    ),
    Case(
        "a session or an event is very large in Redis",
        f"The last {SESSION_STEPS} steps of a session stay, and {TEXT:,} characters of an event are searched. A "
        f"block of writes has {BLOCK_RECORDS:,} records, {BLOCK_BYTES // MB} MB or about {BLOCK_ARGUMENTS:,} "
        "arguments.",
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
        "a tenant has ever more episodes in Redis",
        f"A tenant's index has {SEARCHED:,} episodes, because a string of Redis ends at 512 MB. Later episodes "
        "are found by id and in their session, and by no search.",
        "`hmx_materialiser_unsearched`; the tenant's key …:unsearched in Redis counts its own",
        "give what is searched separately a tenant of its own",
        {"stack/test_full_index.py": ("test_a_full_index_takes_no_more_episodes_and_everything_else_goes_on",)},
    ),
    Case(
        "ever more tenants, or ever new words, come into Redis",
        "Redis has a list for each word of a tenant, and some keys for each tenant. Neither number has a bound of its "
        "own; both grow with the events that bring them: an event of nothing but new words takes 12 times its size. "
        "Redis' maxmemory is the bound: there the materialiser waits, and packs hold what is there.",
        "`hmx_materialiser_retries_total`, `/readyz` of the materialiser",
        "raise maxmemory; give a pipeline of its own to who sends such events",
        {
            "pure/store/test_redis_keys.py": ("test_what_a_word_costs_does_not_grow_with_its_tenants_name",),
            "stack/test_redis_failover.py": (
                "test_the_materialiser_waits_for_a_redis_that_refuses_and_then_writes_everything_once",
            ),
        },
    ),
    Case(
        "a tenant has ever more contributions in Redis",
        f"{PATTERN_SAMPLE:,} stay of a pattern, {TENANT_SAMPLE:,} of a tenant: twice the sample that artifacts "
        "are compiled from. So what a live artifact names is there.",
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
        "long texts and unknown names arrive",
        "A process caches what it derives from texts up to a number of bytes, not up to a number of texts. What "
        "was used longest ago is derived again. Little is kept of unknown tenants, and not for long.",
        "answers are the same",
        "none needed",
        {
            "pure/contracts/test_bounded_cache.py": (
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
        "memory is larger than the cache of a service process",
        f"A process keeps {VIEWS_BYTES // MB} MB of the index and {SOURCES_BYTES // MB} MB of sources. What was "
        "used longest ago is read again, and the answer is the same. A million documents with vectors of 384 "
        "numbers take about 550 MB.",
        "packs take longer, each one where what is asked in turn does not fit beside each other: seconds, with "
        "vectors of a million documents",
        "more processes, each with tenants of its own",
        {
            "stack/test_search.py": (
                "test_other_tenants_and_terms_are_forgotten_first_and_read_again",
                "test_what_is_remembered_answers_as_a_process_that_has_just_begun",
            ),
        },
    ),
    Case(
        "no broker answers",
        "Processes wait and continue by themselves, and packs are served as they are. The service refuses events with "
        "503 `kafka_unavailable`, so their senders send them again.",
        "`hmx_kafka_answers` is 0 within seconds, and `/readyz` names Kafka; lag stays as it was last known",
        "bring the brokers back",
        {
            "crash/test_outages.py": (
                "test_a_broker_that_goes_away_is_told_by_every_process_and_by_a_metric_until_it_is_back",
                "test_without_kafka_and_redis_processes_wait_and_say_so",
            ),
        },
    ),
    Case(
        "a broker's disk is full",
        "The broker ends and is started again, producers are refused, workers wait. Nothing is lost.",
        "the broker's restarts, what producers are told",
        "make room",
        {
            "pressure/test_full_disk.py": ("test_a_full_disk_stops_everything_and_loses_nothing",),
        },
    ),
    Case(
        "retention overtakes a stopped worker",
        "The worker continues with what is left. Each record that is gone is counted.",
        "`lost_to_retention`",
        "set a longer retention",
        {
            "crash/test_log_faults.py": ("test_what_retention_takes_before_it_was_read_is_counted",),
        },
    ),
    Case(
        "the events topic is deleted and created again",
        "The worker refuses to continue and ends with exit code 5.",
        "its last log line",
        "recreate state and output topics too, or another `HMX_TOPIC_PREFIX`",
        {
            "crash/test_log_faults.py": ("test_a_log_that_was_deleted_and_created_again_is_refused",),
        },
    ),
    Case(
        "a record makes a fold raise",
        "If it raises twice alike on the same state, the record is rejected. Other errors end the worker.",
        "`poison`",
        "report it; after the fix: replay",
        {
            "pure/stages/test_executor.py": ("test_a_poison_record_is_rejected_and_leaves_nothing_of_itself",),
        },
    ),
    Case(
        "a record kills every worker",
        "After two deaths at one place, records are folded ever fewer at a time, at last one by one while the "
        "process does nothing else. A record that killed three workers alone is rejected. The decision is kept.",
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
        "Kafka refuses an output for good, such as a record larger than its topic takes",
        "Records are folded fewer at a time until the cause is known. A record whose episode, dead letter or "
        "state is refused becomes a dead letter without its bytes. A refused contribution or artifact is left "
        "out. The decision is kept.",
        "`output_refused`, `output_left_out`",
        "`hmx topics plan` shows which topic takes less than its file says; correct it, then send the record again",
        {
            "crash/test_refused_outputs.py": (
                "test_exactly_the_records_whose_episodes_kafka_refuses_are_dead_letters",
                "test_evidence_that_kafka_refuses_is_left_out_and_no_record_pays_for_it",
                "test_a_worker_whose_topics_take_less_rejects_what_they_refuse_and_goes_on",
            ),
        },
    ),
    Case(
        "a record batch would unpack to gigabytes",
        f"It is unpacked up to {UNPACKED_BYTES // MB} MB. Each of its records is rejected, and the partition "
        "continues.",
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
        "content cannot be mined",
        "The event is released all the same. Mining leaves it out.",
        "`step_not_mined`, `segment_not_mined`, `pattern_not_compiled`",
        "report it; after the fix: replay",
        {
            "pure/stages/test_patterns.py": (
                "test_a_pattern_that_cannot_be_compiled_keeps_what_it_said_and_stops_nothing",
            ),
        },
    ),
    Case(
        "a barrier passes many sessions or patterns, or many fall silent together",
        f"They contribute one after the other. After {PART_STEPS:,} of them, or {PART_BYTES // MB} MB, a "
        "transaction ends and the next begins. The barrier passes with the last.",
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
        "a barrier does not arrive from every partition",
        "`hmx wait` says where it is lacking. It is forgotten after an hour.",
        "`barrier_lost`",
        "`hmx wait` again",
        {
            "pressure/test_patterns_at_their_bounds.py": (
                "test_a_barrier_that_never_came_from_every_partition_is_counted_when_it_is_forgotten",
            ),
        },
    ),
)
