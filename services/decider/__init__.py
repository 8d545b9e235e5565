"""Deciding: from a call and the state to facts and a reply, one folder per tool family."""
