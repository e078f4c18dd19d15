"""Language models over discrete tokens."""
