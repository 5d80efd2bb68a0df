"""From what was fetched to a context pack within its budget (HMX-C). Pure."""
