"""The memory of AI agents as a stream: HMX events in, artifacts and context packs out. Read topology.py first."""
