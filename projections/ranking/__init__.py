"""Ranking: fusing the legs of a search, and how much what was found matters. Pure functions."""
