"""From what a person asks for to a checked specification."""
