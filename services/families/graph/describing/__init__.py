"""How the graph reads as text, embedded after the reply."""
