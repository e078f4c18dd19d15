"""Linear prediction: frames, Burg's method, poles, filters.

Two backends give the same numbers: `compiled` (CPU, a kernel per frame) and `tensor` (any device,
one tensor operation for all frames). `poles` picks.
"""
