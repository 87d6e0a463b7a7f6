"""The words of turnout as types: names, states, events, specifications and what is shown of them."""
