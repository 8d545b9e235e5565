"""Deciding on the knowledge graph."""
