"""The built-in places to run. Each sees only ``turnout.plugin``; they come in by the same door as anybody's."""
