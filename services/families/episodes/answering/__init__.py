"""Answering what is asked of episodes."""
