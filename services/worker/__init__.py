"""Faust workers: which partitions are this process's own, and the records that come for them."""
