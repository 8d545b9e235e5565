"""Following the log: projections brought up to it, made anew from it, and news of it told."""
