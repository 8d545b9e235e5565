"""Vectors: of what is asked and decided, and later of what could wait."""
