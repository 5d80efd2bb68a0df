"""Redis: how memory lies in it, what writes it from the topics, and what reads it. Only this room speaks Redis."""
