"""The interface of XT's backends."""
