"""A running store: the log, the deciders and the projections of one process, wired together."""
