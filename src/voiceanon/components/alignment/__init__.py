"""When each symbol of a transcript is spoken: a network and the search over what it gives."""
