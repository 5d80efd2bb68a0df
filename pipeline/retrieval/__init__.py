"""What a query asks for, what text is indexed, and how candidates are scored. Pure."""
