"""The graph digest: counts of entity and relation types, the hubs, and optionally all nodes and edges.

Input: entity and relation records. A name that only one session knows is left out: its node is a place in the structure
without a name.
"""

from collections import Counter
from collections.abc import Sequence

from hmx_pipeline.contracts.agent_types import ASIDE, SHELVES
from hmx_pipeline.contracts.event_rows import Shelf
from hmx_pipeline.contracts.fingerprint import Edge, GraphDigest, Hub, Node
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.fingerprints.bounded_counts import folded
from hmx_pipeline.fingerprints.contents import SHARED

Thing = tuple[str, str]
"""Type and name of an entity."""
Link = tuple[Thing, str, Thing]


def graph_digest(
    entities: Sequence[KnowledgeRecord],
    relations: Sequence[KnowledgeRecord],
    unread: int,
    named: int,
    hubs: int,
    *,
    whole: bool,
) -> GraphDigest:
    """Build the digest. `unread`: records not among these; `named`: how many types and relations keep their names;
    `whole`: include nodes and edges."""
    shared: set[Thing] = set()
    things: set[Thing] = set()
    for record in entities:
        if SHELVES.get(record.body["entity_type"], Shelf.FACT) is not Shelf.FACT:
            continue  # skills and doubts are no facts, and nobody else's guidance
        thing = record.body["entity_type"], record.body["name"]
        things.add(thing)
        if _is_shared(record):
            shared.add(thing)
    links: set[Link] = set()
    for record in relations:
        body = record.body
        if body["relation"] in ASIDE:
            continue
        source, target = (body["source_type"], body["source"]), (body["target_type"], body["target"])
        links.add((source, body["relation"], target))
        if _is_shared(record):
            shared.update((source, target))
    degrees = Counter(end for source, _, target in links for end in (source, target))
    things.update(degrees)
    known = sorted(shared & degrees.keys(), key=lambda thing: (-degrees[thing], thing))[:hubs]
    digest = GraphDigest(
        entities=folded(Counter(kind for kind, _ in things), named),
        relations=folded(Counter(relation for _, relation, _ in links), named),
        hubs=[Hub(type=kind, name=name, degree=degrees[kind, name]) for kind, name in known],
        omitted=unread,
    )
    return _with_structure(digest, things, shared, links) if whole else digest


def _with_structure(digest: GraphDigest, things: set[Thing], shared: set[Thing], links: set[Link]) -> GraphDigest:
    places = {thing: place for place, thing in enumerate(sorted(things))}
    nodes = [Node(type=thing[0], name=thing[1] if thing in shared else "") for thing in places]
    edges = sorted((places[source], relation, places[target]) for source, relation, target in links)
    return digest.model_copy(
        update={"nodes": nodes, "edges": [Edge(source=s, relation=r, target=t) for s, r, t in edges]}
    )


def _is_shared(record: KnowledgeRecord) -> bool:
    sessions = record.body.get("sessions", 0)
    return isinstance(sessions, int) and sessions >= SHARED
