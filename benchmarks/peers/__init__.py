"""The systems that are measured: one module each, with `server(directory)` and what it needs."""
