"""A record's bytes → an accepted event or a rejection; secrets taken out; an event's fields → a step. Pure."""
