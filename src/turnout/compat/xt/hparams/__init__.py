"""The interface of XT's search algorithms."""
