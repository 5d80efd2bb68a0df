"""HMX memory as an MCP server over stdio. It talks HTTP to the service, and has no part of the pipeline."""
