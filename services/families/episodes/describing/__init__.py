"""Vectors of episodes and patterns, made after the reply."""
