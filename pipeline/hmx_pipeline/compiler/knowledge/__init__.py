"""Knowledge extraction: facts, preferences, goals, policies, entities, relations, conflicts and corrections."""
