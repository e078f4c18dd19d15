"""Audio at the border: files, checks, rates, levels, and the form in which it came."""
