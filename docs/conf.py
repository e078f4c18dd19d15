"""Settings of the documentation."""

import importlib.metadata

project = "voiceanon"
author = "voiceanon contributors"
project_copyright = "2026, voiceanon contributors"
release = importlib.metadata.version("voiceanon")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
html_theme = "furo"
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
