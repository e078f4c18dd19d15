"""One file per family of systems; the registry imports it at first use."""
