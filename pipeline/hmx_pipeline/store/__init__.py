"""Redis store: key layout, materialiser (topics → Redis) and reads. Only this room speaks Redis."""
