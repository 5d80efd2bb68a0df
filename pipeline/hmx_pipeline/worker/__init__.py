"""Worker (Faust): application, agents and consumer, and the runner that makes stages exactly once."""
