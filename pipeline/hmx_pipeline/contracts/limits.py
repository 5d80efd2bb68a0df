"""All bounds of the system. What happens at a bound has a name: see `rejections`, `outcomes` and `effects`.

Sizes are bytes, 1 KB = 1,024. An event's size is that of the received bytes; a part's size is that of its canonical
form.
"""

from typing import Final

KB: Final = 1024
MB: Final = 1024 * KB

# HMX-E §11
EVENT_BYTES: Final = 1 * MB
CONTENT_BYTES: Final = 512 * KB
METADATA_BYTES: Final = 64 * KB
EMBEDDING_DIMENSIONS: Final = 4096
EVENT_TAGS: Final = 64
ID_BYTES: Final = 512  # bytes of UTF-8 in an id or event type; longer ones are rejected as `id_too_long`
INTEGER_MAX: Final = 2**64 - 1  # the largest integer that the JSON parser keeps exactly
NESTING: Final = 200  # nested objects and arrays; parsers and writers here stop at 254
WORK_STEPS: Final = 400_000  # of the search for secrets in one event; more are rejected as `too_costly`
TEXT_STEPS: Final = 16  # for a searched text, and one more for as many characters; a value takes one step
RULE_CHARACTERS: Final = 32  # of a searched text per step, for each rule that may match in it

# Notes on an event in its episode
NOTES: Final = 16
REDACTED_PATHS: Final = 64
REDACTED_PATH: Final = 256  # characters of each

# HMX-A §12
ARTIFACT_BYTES: Final = 512 * KB
ARTIFACT_CONTENT_BYTES: Final = 256 * KB
ARTIFACT_SOURCES: Final = 10_000
ARTIFACT_TAGS: Final = 64

# HMX-C §11, §12
PACK_BYTES: Final = 256 * KB
PACK_ENTRIES: Final = 500
PACK_DROPS: Final = 100
PACK_NEXT_STEPS: Final = 10
PACK_CONSTRAINTS: Final = 20
PACK_TAGS: Final = 64

# Ordering (HMX-E §7) and session state
WINDOW_MS: Final = 5_000
WAITING_EVENTS: Final = 1_024  # behind a gap, per session; the next event closes the gap
WAITING_BYTES: Final = 16 * MB  # the same in bytes
PARTITION_WAITING_BYTES: Final = 256 * MB  # over all sessions; beyond it the fullest tenant's fullest gap is closed
BLOCK_BYTES: Final = 1 * MB  # of an append log in one record; a larger one is split
SESSIONS_LIVE: Final = 250_000  # per partition; beyond it the tenant with most loses its longest silent one
PARTITION_SESSION_BYTES: Final = 2_048 * MB  # of traces and closed segments, as written; beyond it the same happens
TRACE_BYTES: Final = 1 * KB  # of an event, beyond which its trace is measured; below, it counts as large as the event
RECENT_IDS: Final = 256  # released event ids kept per session to detect duplicates
SESSION_FORGOTTEN_MS: Final = 24 * 3600 * 1000
OWNERS_KEPT: Final = 250_000  # per partition: subjects of forgotten sessions; the largest subject's oldest goes first
CLOCK_SKEW_MS: Final = 5 * 60 * 1000  # an event's time is at most this much after its append time

# Segments
SEGMENT_EVENTS: Final = 512
SEGMENT_IDLE_MS: Final = 30 * 60 * 1000
STATED_MS: Final = 250  # after which an open segment contributes what its user has stated
SESSION_SEGMENTS: Final = 32  # closed segments that late feedback can still reach
STEP_TEXT: Final = 600  # characters of an event's text that mining sees
STEP_VALUES: Final = 12  # argument values kept to mask error messages
STEP_VALUE: Final = 80
STEP_FOUND: Final = 8  # facts in a structured result
STEP_FOUND_CHARACTERS: Final = 48  # characters of each
STEP_LISTED: Final = 12  # ids in a list of a structured result
STEP_ARGUMENTS: Final = 16  # of a call, with their keys
STEP_ARGUMENT: Final = 200  # characters; a longer value is never a constant
ACTION_COMMANDS: Final = 8  # simple commands of one command line
ACTION_WORDS: Final = 24  # words and options of each
STEP_TAGS: Final = 16  # of an event's tags by which artifacts can be filtered
TAG: Final = 128  # characters; a longer tag stays in its episode, but no filter uses it

# Patterns
PATTERN_CONTRIBUTIONS: Final = 2_048  # kept per pattern: those with the lowest hash of their segment
PATTERN_COMPILED: Final = 1_792  # of them that count, the lowest again; the rest replace withdrawn ones
TENANT_CONTRIBUTIONS: Final = (
    262_144  # kept per tenant by the same hash, withdrawn ones included; also the most patterns of a tenant
)
PARTITION_CONTRIBUTION_BYTES: Final = 1_024 * MB  # of all tenants; beyond it the largest loses its highest ranks
TENANT_DECISIONS: Final = 65_536  # patterns that operators archived, imported or ruled on; further ones are not taken
ERASED_SESSIONS: Final = 8_192  # of a subject, named in one erasure; more take several
ERASURE_KEPT_MS: Final = 40 * 86_400_000  # an erasure turns late events away; longer than the log keeps them
PATTERN_RULINGS: Final = 64  # records of a pattern that operators ruled on; further ones are not taken
CONTRIBUTION_BYTES: Final = 128 * KB  # with its key; usually one or two
TASKS_GONE: Final = 256  # of a tenant: tasks without runs whose deprecated artifacts stay, the last
PATTERN_DEBOUNCE_MS: Final = 1_000
STATEMENT_DEBOUNCE_MS: Final = 250  # of patterns that publish knowledge
CONTRIBUTION_DEBOUNCE_MS: Final = 40  # more for each contribution of a pattern: a full one is compiled after 82 s
ARTIFACT_VERSIONS: Final = 256  # no longer live, kept in the topic per pattern; older ones are erased
BARRIER_KEPT_MS: Final = 3600 * 1000

# Knowledge
QUORUM: Final = 3  # subjects that must state the same before their tenant shares it
TRUSTED_AGENTS: Final = 256  # agents of a tenant that an operator trusts
KNOWLEDGE_VALUES: Final = 32  # values per pattern; those that ended first are dropped
KNOWLEDGE_TOUCHES: Final = 32  # normal forms by which an ending can reach a statement
KNOWLEDGE_TOUCHED: Final = 256  # patterns that an ending can reach; a form that more of them have is no name
KNOWLEDGE_CHAIN: Final = 3  # successive endings of a value that nobody stated again in between
KNOWLEDGE_CHAINED: Final = 16  # forms whose endings name the same new value
KNOWLEDGE_BESIDE: Final = 64  # forms under which a pattern looks for endings, those of the newest statements
KNOWLEDGE_ENDINGS: Final = 64  # contributions read per form, the newest
KNOWLEDGE_CORRECTIONS: Final = 8  # texts per target, the newest
KNOWLEDGE_SOURCES: Final = 64  # events, and contributions, named in a record, the newest
WITHDRAWN_RECORDS: Final = 16  # records per pattern kept in the topic; older ones are erased
SEGMENT_STATEMENTS: Final = 64  # of each kind of knowledge in a segment, the first
PROJECTED_NAME: Final = 200  # characters of a typed event's name and of a plain value
PROJECTED_TEXT: Final = 600  # characters of its summary, and of each part
PROJECTED_EXCERPT: Final = 240  # characters of a tool's output; never searched
PROJECTED_ITEMS: Final = 16  # items of a list
PROJECTED_PROPERTIES: Final = 16
PROJECTED_REFS: Final = 64  # source events or memories that an event names, the first
SEGMENT_UNKNOWN: Final = 16  # events of unknown types in a segment that become entities, the last

# Batches
REROUTED_HEADER_BYTES: Final = 256 * KB  # of the producer's headers; with more, the copy might exceed the topic's limit
BATCH_RECORDS: Final = 2_000
BATCH_BYTES: Final = 4 * MB
UNPACKED_BYTES: Final = 48 * MB  # of a compressed record batch; the broker only bounds the packed size
PART_STEPS: Final = 512  # timers and turns in one transaction; a batch with more takes several
PART_BYTES: Final = 4 * MB  # output in one transaction; a batch with more takes several
OUTPUT_BYTES: Final = 4 * MB
REFUSED_BYTES: Final = 64 * KB  # of decisions on outputs that Kafka refuses; a replay of older ones differs there
RECORD_BYTES: Final = 3 * MB  # key, value and producer's headers of an output; the rest is for our headers

# HMX-F: a compact fingerprint must stay below 100 KB
FINGERPRINT_COMPACT_BYTES: Final = 96 * KB  # the least important artifacts that do not fit are only counted
FINGERPRINT_FULL_BYTES: Final = 8 * MB
FINGERPRINT_NAMED: Final = 32  # tools, error classes, entity types and relations named in a compact one
FINGERPRINT_NAMED_FULL: Final = 1_024
FINGERPRINT_QUESTIONS: Final = 8  # whose decisions a compact one counts, and options of each
FINGERPRINT_HUBS: Final = 16
FINGERPRINT_GRAPH: Final = 10_000  # entities, and relations, that are read
FINGERPRINT_PATTERNS: Final = 64  # weighed in priors
FINGERPRINT_TERMS: Final = 128  # weighed in priors
FINGERPRINT_COMPETENCIES: Final = 8
IMPORTED_AGENTS: Final = 64  # agents with an import of the same artifact; the first by name
