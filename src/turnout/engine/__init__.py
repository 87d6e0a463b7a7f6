"""Load, decide, apply: the actions on the store, what is known of agents in memory, and the only loop."""
