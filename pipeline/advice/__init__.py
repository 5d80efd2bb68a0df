"""What a session that is under way should know of what its tenant's sessions did before. Pure."""
