"""Answering recall."""
