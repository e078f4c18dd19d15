"""Where in a recording there is speech."""
