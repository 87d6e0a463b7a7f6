"""What travels between hub and node, and how. Standard library only, Python 3.9."""
