"""One data directory, many processes: one holds the store, the others work through it."""
