"""The graph digest: what kinds of things there are, how they hang together, and which hold most together. Pure.

Enters: entity and relation records. Leaves: counts, hubs, and, where they are wanted, all nodes and edges. A name that
only one session knows is not told: such a node is a place in the structure. Nothing fails.
"""

from collections import Counter
from collections.abc import Sequence

from pipeline.contracts.fingerprint import Edge, GraphDigest, Hub, Node
from pipeline.contracts.knowledge import KnowledgeRecord
from pipeline.fingerprints.counting import folded
from pipeline.fingerprints.learnt import SHARED

Thing = tuple[str, str]
"""Type and name."""
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
    """`unread`: records that are not among these; `named`: so many types and relations have a name; `whole`: with nodes
    and edges."""
    shared: set[Thing] = set()
    things: set[Thing] = set()
    for record in entities:
        thing = record.body["entity_type"], record.body["name"]
        things.add(thing)
        if _is_shared(record):
            shared.add(thing)
    links: set[Link] = set()
    for record in relations:
        body = record.body
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
