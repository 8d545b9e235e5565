"""How calls of the episodes family are decided."""
