"""Spaces as people write them, and as they are kept."""

from turnout.search.spaces.plain import from_plain as from_plain
from turnout.search.spaces.plain import to_plain as to_plain
from turnout.search.spaces.reading import read_space as read_space
