"""What a specification or a topic says: models, limits, names. Pure; every other room may import it."""
