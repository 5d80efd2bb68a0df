"""Sessions cut into segments, and what a segment did: actions, outcome, intent."""
