"""Two tenants on one service: neither can tell that the other is there."""
