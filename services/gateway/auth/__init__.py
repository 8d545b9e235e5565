"""Who may come in: nobody is asked, API keys, or tokens of an authorization server."""
