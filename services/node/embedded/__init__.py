"""The embedded node: log, deciders and projections of one directory, in one process."""
