"""The fold of a partition: the protocol, the executor, and the two folds. They only call the pure rooms above."""
