"""Answering: what a read may look at, and what it gives back. Beside deciding, which it never
waits for."""
