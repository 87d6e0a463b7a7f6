"""The hub: one process that owns the store, the engine and the providers, and answers over HTTP."""
