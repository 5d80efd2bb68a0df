"""What is known, apart from what is done: facts, preferences, goals, policies, entities, relations and conflicts."""
