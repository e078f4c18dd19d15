"""Facts about systems, and their weights, as data."""
