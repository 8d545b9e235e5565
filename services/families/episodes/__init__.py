"""The episodes family: what was tried step by step, how it went, and what follows from it."""
