"""Who may come in, over real HTTP: API keys, and tokens of a real authorization server."""
