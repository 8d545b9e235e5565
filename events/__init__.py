"""The log's language: calls, decisions, facts, and the rules that make a chain of them."""
