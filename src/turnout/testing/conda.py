"""A ``conda`` command for machines that cannot have one: real packages and channels, solved and installed by rattler.

``python -m turnout.testing.conda create --yes --prefix DIR PACKAGE…`` does what conda does with these arguments, with
the channels of ``CONDA_CHANNELS``. Only the command line is ours. `make_package` and `make_channel` write a channel
from nothing. Needs the package ``py-rattler``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Record = tuple[str, dict[str, Any]]


def make_package(channel: Path, name: str, version: str, files: Mapping[str, bytes]) -> Record:
    """Writes a package of these files; those below ``bin/`` can be executed."""
    about = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": [], "subdir": "noarch",
             "noarch": "generic", "timestamp": 0}  # fmt: skip
    paths = [
        {"_path": path, "path_type": "hardlink", "sha256": hashlib.sha256(content).hexdigest(),
         "size_in_bytes": len(content)}
        for path, content in files.items()
    ]  # fmt: skip
    told = {"info/index.json": about, "info/paths.json": {"paths": paths, "paths_version": 1}}
    file = channel / "noarch" / f"{name}-{version}-0.tar.bz2"
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:bz2") as archive:
        for path, content in {**files, **{path: json.dumps(each).encode() for path, each in told.items()}}.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(content))
    content = file.read_bytes()
    return file.name, {**about, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def make_channel(channel: Path, records: Sequence[Record]) -> str:
    """Writes the index of a channel with these packages; its URL."""
    for folder in ("noarch", "linux-64"):
        (channel / folder).mkdir(parents=True, exist_ok=True)
        packages = dict(records) if folder == "noarch" else {}
        index = {"info": {"subdir": folder}, "packages": packages, "packages.conda": {}, "repodata_version": 1}
        (channel / folder / "repodata.json").write_text(json.dumps(index))
    return channel.absolute().as_uri()


async def create(prefix: Path, packages: Sequence[str], channels: Sequence[str]) -> None:
    """An environment with these packages. Raises what rattler raises when there are no such ones."""
    import rattler

    with tempfile.TemporaryDirectory(prefix="turnout-conda-") as cache:
        records = await rattler.solve(
            sources=[rattler.Channel(channel) for channel in channels],
            specs=[rattler.MatchSpec(package) for package in packages],
            gateway=rattler.Gateway(cache_dir=Path(cache)),
            platforms=["linux-64", "noarch"],
            virtual_packages=[],
        )
        await rattler.install(records, target_prefix=prefix, cache_dir=Path(cache))


def main() -> int:
    parser = argparse.ArgumentParser(prog="conda")
    parser.add_argument("command", choices=["create"])
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("packages", nargs="+")
    asked = parser.parse_args()
    try:
        asyncio.run(create(asked.prefix, asked.packages, os.environ.get("CONDA_CHANNELS", "").split(",")))
    except Exception as error:  # whatever rattler says is what conda would say
        print(f"conda: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads of rattler's may crash a Python that tidies up
