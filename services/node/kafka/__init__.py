"""A node on Kafka: partitions shared with others, and projections of its own."""
