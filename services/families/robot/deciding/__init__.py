"""Deciding on memories and sessions."""
