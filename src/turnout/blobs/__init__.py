"""Content by digest, kept durably: what the files of snapshots and of runs are made of.

`Blobs` is what a store of them must do; `BlobStore` is the one in a local directory."""

from turnout.blobs.base import Blobs, Sample, Usage
from turnout.blobs.store import BlobStore

__all__ = ["BlobStore", "Blobs", "Sample", "Usage"]
