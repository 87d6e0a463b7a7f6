"""Searches over parameters: spaces, samplers, stoppers, and what a search may still use. Nothing here does IO."""
