"""The files of a directory frozen by content: what is captured at submit, what is refused, and how it reaches a store.

Runs in the client, in the user's directory; reads it and never writes to it."""

from turnout.snapshot.delivery import Sink, deliver
from turnout.snapshot.git import git_state
from turnout.snapshot.joined import Joined, Part, join
from turnout.snapshot.policy import Limits, Policy
from turnout.snapshot.snapshot import Snapshot, capture, capture_file

__all__ = [
    "Joined", "Limits", "Part", "Policy", "Sink", "Snapshot", "capture", "capture_file", "deliver", "git_state", "join",
]  # fmt: skip
