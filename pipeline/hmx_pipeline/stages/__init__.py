"""Stream processing stages: the fold protocol, the partition executor, keyed state, and both folds. Pure."""
