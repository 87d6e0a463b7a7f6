"""Everything a plugin may import: the contracts, as small dataclasses and abstract classes. Standard library only."""
