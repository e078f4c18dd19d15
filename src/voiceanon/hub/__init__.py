"""Facts about systems, and their weights, as data.

`manifest` reads the facts; `resolve` gives verified local files of a system, with `fetch` and
`transfer` for the network, `archives` and `verify`; `read`, `onnx`, `kaldi` and `convert` bring a
file into a module; `cache` lists, checks and removes what was fetched.
"""
