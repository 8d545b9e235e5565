"""How reads of the episodes family are answered."""
