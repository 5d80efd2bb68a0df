"""Doors: what other tools write down of an agent's work becomes HMX events. They map, and read or send nothing."""
