"""Neural audio codecs."""
