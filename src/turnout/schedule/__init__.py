"""Decisions, as pure functions of state, event and time. No clock, socket, thread, file or random source in here."""
