"""Context packs (HMX-C): chooses, budgets and renders what a query retrieved. Pure."""
