"""Answering what is asked of the knowledge graph."""
