"""What a tenant's tasks are, and how each is done: learnt by counting, from what was said and what was done."""
