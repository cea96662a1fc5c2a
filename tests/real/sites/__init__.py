"""Real applications, each prepared in a temporary folder and then used like a person."""
