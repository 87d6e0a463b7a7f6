"""A dry run finds what a submission would find, but starts no hub and changes nothing, here or there."""

from __future__ import annotations

from turnout.client.client import Client
from turnout.client.preparing import Prepared
from turnout.client.shares import select
from turnout.config import secrets
from turnout.errors import HubUnreachable, NotFound
from turnout.home import Home
from turnout.model.inputs import Input


def rehearse(prepared: Prepared, home: Home) -> list[str]:
    """What could not be looked at, in words. NotFound for a secret of the target, or a share, that does not exist; for
    a search what its sampler and stopper have to say against it."""
    if prepared.target is not None:
        secrets.revealed(prepared.target.settings, home)
    spec = prepared.spec
    unbound = [each for each in (spec.data, spec.model) if each is not None and each.share and each.manifest is None]
    searchers = [each for each in (spec.search.sampler, spec.search.stopper) if each] if spec.search is not None else []
    by_path = [each for each in searchers if ":" in each]
    client = Client(home.root, start=False)
    try:
        for each in unbound:
            _look(client, each)
        if spec.search is not None and not by_path:
            client.check_search(spec.search)
    except HubUnreachable as error:
        kinds = [*(["shares"] if unbound else []), *(["sampler and stopper"] if searchers and not by_path else [])]
        return [f"{' and '.join(kinds)} were not looked at: {error.message}"] if kinds else []
    finally:
        client.close()
    return [f"{' and '.join(by_path)} was not looked at, because it is among the files"] if by_path else []


def _look(client: Client, wanted: Input) -> None:
    assert wanted.share is not None
    share = client.share(wanted.share)
    if wanted.path and not select(client.share_files(str(share["name"])), wanted.path):
        hint = f"`turnout list shares {wanted.share}` shows what is in it"
        raise NotFound(f"no {wanted.path!r} in share {wanted.share!r}", hint=hint)
