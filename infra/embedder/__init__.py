"""Embedding models: which there are, fetching them, and running them."""

DEFAULT_MODEL = "bge-small-en-v1.5"
"""One of the catalogue's. It stands here because the settings need no more of it, and they are read
before a client is greeted."""
