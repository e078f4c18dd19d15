"""F0: trackers, and what is done with the tracks before a network reads them."""
