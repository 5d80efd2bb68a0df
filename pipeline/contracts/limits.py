"""Every bound of the system, in one place. What happens at a bound has a name: see `rejections` and `outcomes`.

Sizes are bytes with 1 KB = 1,024; an event's size is the bytes received, a part's size its canonical form.
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
ID_BYTES: Final = 512  # of UTF-8, an id and an event's type; a longer one is refused as `id_too_long`
INTEGER_MAX: Final = 2**64 - 1  # what a JSON parser here keeps exact
NESTING: Final = 200  # objects and arrays in each other; parsers and writers here stop at 254
WORK_STEPS: Final = 400_000  # of looking for secrets in one event; one that takes more is refused as `too_costly`
TEXT_STEPS: Final = 16  # a text that is searched takes so many, and one more for as many characters; a value takes one
RULE_CHARACTERS: Final = 32  # of a searched text: one step more for so many, for each rule that may match in it

# What an episode says of its event
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

# Ordering (HMX-E §7) and the state of a session
WINDOW_MS: Final = 5_000
WAITING_EVENTS: Final = 1_024  # behind a gap, per session; the next one closes the gap
WAITING_BYTES: Final = 16 * MB  # likewise
PARTITION_WAITING_BYTES: Final = 256 * MB  # of all its sessions; beyond it the fullest tenant's fullest gap closes
BLOCK_BYTES: Final = 1 * MB  # of a journal in one record; a larger one is written as several
SESSIONS_LIVE: Final = 250_000  # per partition; for the next one the tenant with the most forgets its longest silent
PARTITION_SESSION_BYTES: Final = 2_048 * MB  # of its traces and closed segments, as written; beyond it likewise
TRACE_BYTES: Final = 1 * KB  # of an event: a larger one's trace is measured, a smaller one's counts as the event
RECENT_IDS: Final = 256  # released event ids remembered for duplicates, per session
SESSION_FORGOTTEN_MS: Final = 24 * 3600 * 1000
CLOCK_SKEW_MS: Final = 5 * 60 * 1000  # an event dated further past its append time counts as its append time

# Segments
SEGMENT_EVENTS: Final = 512
SEGMENT_IDLE_MS: Final = 30 * 60 * 1000
SESSION_SEGMENTS: Final = 32  # closed segments that late feedback can still reach
STEP_TEXT: Final = 600  # characters of an event's text that mining sees
STEP_VALUES: Final = 12  # argument values kept to mask an error's message with
STEP_VALUE: Final = 80
STEP_FOUND: Final = 8  # of what a structured result says in words
STEP_FOUND_CHARACTERS: Final = 48  # of each
STEP_LISTED: Final = 12  # of the ids that a structured result lists
STEP_ARGUMENTS: Final = 16  # of a call, with their keys, to learn what calls have in common
STEP_ARGUMENT: Final = 200  # characters; what is longer is no constant of a call
ACTION_COMMANDS: Final = 8  # simple commands of one command line
ACTION_WORDS: Final = 24  # words and options of each
STEP_TAGS: Final = 16  # of an event's tags that artifacts can be filtered by
TAG: Final = 128  # characters; a longer tag stays in its episode, but nothing is filtered by it

# Patterns
PATTERN_CONTRIBUTIONS: Final = 2_048  # kept per pattern: those with the lowest hash of their segment
PATTERN_COMPILED: Final = 1_792  # of them that count, the lowest again; the others wait for what is withdrawn
TENANT_CONTRIBUTIONS: Final = (
    262_144  # kept per tenant likewise, withdrawn ones too: also the most patterns it can have
)
PARTITION_CONTRIBUTION_BYTES: Final = 1_024 * MB  # of all tenants; beyond it who has most loses the highest ranks
TENANT_DECISIONS: Final = 65_536  # patterns that operators have archived or imported; one more is not taken
CONTRIBUTION_BYTES: Final = 128 * KB  # with its key; a usual one has one or two
TASKS_GONE: Final = 256  # tasks of a tenant that no run is left of and whose deprecated artifacts stay, the last
PATTERN_DEBOUNCE_MS: Final = 1_000
CONTRIBUTION_DEBOUNCE_MS: Final = 40  # more for each contribution a pattern has: compiling a full one waits 82 s
ARTIFACT_VERSIONS: Final = 256  # that are no longer live and stay in the topic, per pattern; older ones are erased
BARRIER_KEPT_MS: Final = 3600 * 1000

# Knowledge
KNOWLEDGE_VALUES: Final = 32  # that one pattern's statements tell apart; those that ended first are not said any more
KNOWLEDGE_TOUCHES: Final = 32  # normal forms by which an ending can reach a statement
KNOWLEDGE_TOUCHED: Final = 256  # patterns that an ending can reach; what more of them have is a word and no name
KNOWLEDGE_CHAIN: Final = 3  # endings one after the other of what nobody has stated again in between
KNOWLEDGE_CHAINED: Final = 16  # forms whose endings have one value come instead; likewise
KNOWLEDGE_BESIDE: Final = 64  # forms that one pattern looks for endings under, those of the newest statements
KNOWLEDGE_ENDINGS: Final = 64  # contributions read of each such form, the newest
KNOWLEDGE_CORRECTIONS: Final = 8  # texts about one target; the newest holds
KNOWLEDGE_SOURCES: Final = 64  # events, and contributions, that a record names: the newest
WITHDRAWN_RECORDS: Final = 16  # records per pattern that are no longer said and stay in the topic; older are erased
SEGMENT_STATEMENTS: Final = 64  # of each kind of knowledge that one segment makes; the first are kept
PROJECTED_NAME: Final = 200  # characters of a typed event's name and of a plain value
PROJECTED_TEXT: Final = 600  # of its summary, and of each of its parts
PROJECTED_EXCERPT: Final = 240  # of what a tool printed; never searched
PROJECTED_ITEMS: Final = 16  # of a list
PROJECTED_PROPERTIES: Final = 16
SEGMENT_UNKNOWN: Final = 16  # events of unknown types that a segment makes entities of, the last

# Batches
REROUTED_HEADER_BYTES: Final = 256 * KB  # of the producer's headers; with more the copy might exceed the topic's limit
BATCH_RECORDS: Final = 2_000
BATCH_BYTES: Final = 4 * MB
UNPACKED_BYTES: Final = 48 * MB  # of a compressed record batch; the broker bounds only what it has packed
PART_STEPS: Final = 512  # timers and turns in one transaction; a batch with more of them takes several
PART_BYTES: Final = 4 * MB  # likewise, of what these have put out
OUTPUT_BYTES: Final = 4 * MB
RECORD_BYTES: Final = 3 * MB  # key, value and a producer's headers of what we write, which leaves room for ours

# HMX-F; of a compact fingerprint, which has to stay below 100 KB, and of a full one
FINGERPRINT_COMPACT_BYTES: Final = 96 * KB  # artifacts that do not fit are counted, those that matter least
FINGERPRINT_FULL_BYTES: Final = 8 * MB
FINGERPRINT_NAMED: Final = 32  # tools, error classes, entity types, relations that a compact one names
FINGERPRINT_NAMED_FULL: Final = 1_024
FINGERPRINT_QUESTIONS: Final = 8  # whose decisions a compact one counts, and options of each
FINGERPRINT_HUBS: Final = 16
FINGERPRINT_GRAPH: Final = 10_000  # entities, and relations, that are looked at
FINGERPRINT_PATTERNS: Final = 64  # that priors weigh
FINGERPRINT_TERMS: Final = 128  # likewise
FINGERPRINT_COMPETENCIES: Final = 8
IMPORTED_AGENTS: Final = 64  # for whom one artifact was imported; of more the first by name
