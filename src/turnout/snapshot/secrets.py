"""What looks like a secret, by name and by content. Made for precision: ordinary code, hashes and data pass.

Scanning must not make a capture slow. Every secret of a known form contains an unbroken run of at least twenty letters,
digits and ``_-+/``, which text rarely does: such runs are found at the speed of `bytes.find`, and only they are looked
at closely.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

SCANNED: Final = 1 << 20
"""how much of a file is scanned"""

_RUN = 20
_LONGEST = 400  # longer ones are embedded data
_WORD = re.compile(rb"[A-Za-z0-9_+/-]")
_CLASSES = bytes(ord("a") if _WORD.match(bytes([byte])) else ord(" ") for byte in range(256))
_NEEDLE = b"a" * _RUN
_DIGIT = re.compile(rb"[0-9]")

_NAMES = {
    name: f"{what} by its name"
    for what, names in {
        "a file of secret settings": (".env",),
        "a private key": ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"),
        "a file of passwords": (".netrc", "_netrc", ".git-credentials", ".pgpass", ".htpasswd"),
        "a file of access keys": (
            ".dockercfg",
            ".s3cfg",
            ".boto",
            ".vault-token",
            "application_default_credentials.json",
        ),
        "access to a cluster": ("kubeconfig",),
    }.items()
    for name in names
}
_PLACES = {".aws/credentials", ".kube/config", ".docker/config.json", ".azure/accesstokens.json"}
_STORES = (".kdbx", ".p12", ".pfx", ".jks", ".keystore", ".ppk")
_HARMLESS_ENV = (".example", ".sample", ".template", ".dist")
_SUSPECT = frozenset("._iIkKaAcC")  # no name of the above begins with another character
_CONTENT_OF = {
    ".npmrc": re.compile(rb"(?m)^[^#\n]*_(?:authToken|auth|password)\s*=\s*(?!\$)\S"),
    ".pypirc": re.compile(rb"(?m)^\s*password\s*[=:]\s*\S"),
}

_PEM = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])+"
    rb"(?:[A-Za-z][\w-]*: ?[^\n\\]{0,100}(?:\s|\\[nr])+){0,5}[A-Za-z0-9+/=]{7}"
)
_TOKEN = re.compile(
    rb"(?<![A-Za-z0-9])(?:"
    rb"(?P<aws>(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9]))"
    rb"|(?P<github>gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22})"
    rb"|(?P<gitlab>glpat-[A-Za-z0-9_-]{20})"
    rb"|(?P<model>sk-(?:ant|proj|svcacct|or)-[A-Za-z0-9_-]{20}|sk-[A-Za-z0-9]{32})"
    rb"|(?P<slack>xox[abeoprs]-[A-Za-z0-9-]{16})"
    rb"|(?P<huggingface>hf_[A-Za-z0-9]{30})"
    rb"|(?P<google>AIza[A-Za-z0-9_-]{35})"
    rb"|(?P<stripe>[rs]k_live_[A-Za-z0-9]{16})"
    rb"|(?P<npm>npm_[A-Za-z0-9]{36})"
    rb"|(?P<pypi>pypi-AgEI[A-Za-z0-9_-]{40})"
    rb")"
)
_OWNERS = {
    "aws": "an AWS access key",
    "github": "a GitHub token",
    "gitlab": "a GitLab token",
    "model": "an API key of a model service",
    "slack": "a Slack token",
    "huggingface": "a Hugging Face token",
    "google": "a Google API key",
    "stripe": "a Stripe key",
    "npm": "an npm token",
    "pypi": "a PyPI token",
}
_ASSIGNED = re.compile(
    rb"(?i)(?:secret|token|passw(?:or)?d|api[_-]?key|(?:access|auth|secret|private)[_-]?key|credentials?)"
    rb"[\"']?\]?\s*(?:=>|:=|[:=])\s*[bru]?[\"']?\Z"
)
_PASSWORD = re.compile(rb"(?i)passw(?:or)?d[\"']?\]?\s*(?:=>|:=|[:=])\s*[bru]?([\"'])([^\"'\s${}<>]{12,64})\1")
_PLACEHOLDER = set(b"x0")
_OPENING = (b'"', b"'", b"=", b":")
_KINDS = bytes(
    next((ord(kind) for kind, low, high in ("aaz", "AAZ", "009") if ord(low) <= byte <= ord(high)), ord("."))
    for byte in range(256)
)
_CHANGES = {tuple(pair) for pair in (b"aA", b"a0", b"A0", b"0a", b"0A")}
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_CLOUD_SECRET = re.compile(rb"[A-Za-z0-9/+]{40}\Z")


def judge(path: str, content: bytes) -> str:
    """Why the file looks like a secret, for people; "" when it does not.

    `path` is relative with ``/``; `content` the file or its beginning, of which SCANNED bytes are looked at.
    """
    if not content:
        return ""
    name = path.rpartition("/")[2]
    verdict = _by_name(path, name, content) if name[0] in _SUSPECT or name.endswith(_STORES) else ""
    return verdict or _by_content(content)


def _by_name(path: str, name: str, content: bytes) -> str:
    lower = name.lower()
    if lower in _NAMES:
        return f"looks like {_NAMES[lower]}"
    if lower.startswith(".env.") and not lower.endswith(_HARMLESS_ENV):
        return f"looks like {_NAMES['.env']}"
    if lower.endswith(_STORES):
        return "looks like a key store by its name"
    if "/".join(path.lower().rsplit("/", 2)[-2:]) in _PLACES:
        return "looks like a file of access keys by its name"
    if lower in _CONTENT_OF and _CONTENT_OF[lower].search(content):
        return "looks like a file of access keys by its name and content"
    return ""


def _by_content(content: bytes) -> str:
    if content.find(0, 0, 8192) >= 0:
        return ""  # not text
    if len(content) > SCANNED:
        content = content[:SCANNED]
    if b"PRIVATE KEY" in content and (found := _PEM.search(content)):
        return _told("a private key", content, found.start())
    classes = content.translate(_CLASSES)
    start = classes.find(_NEEDLE)
    while start >= 0:
        end = classes.find(b" ", start)
        if end < 0:
            end = len(content)
        if end - start <= _LONGEST and (what := _in_run(content, start, end)):
            return _told(what, content, start)
        start = classes.find(_NEEDLE, end)
    if b"assw" in content or b"ASSW" in content:
        for assigned in _PASSWORD.finditer(content):
            if _changes(assigned[2]) * 4 >= len(assigned[2]):
                return _told("a password", content, assigned.start())
    return ""


def _in_run(content: bytes, start: int, end: int) -> str:
    """What secret one run of word characters is; "" for none."""
    if not _DIGIT.search(content, start, end) and content[start : start + 3] != b"hf_":
        return ""
    token = _TOKEN.search(content, start, end)
    if token and not set(token[0][-16:].lower()) <= _PLACEHOLDER:
        return _OWNERS[str(token.lastgroup)]
    before = content[max(start - 80, 0) : start]
    run = content[start:end]
    if assigned := _ASSIGNED.search(before):
        # `private_key: SomeType2` is an annotation; a value in quotes or behind `=` needs less to be believed.
        needed = len(run) / (4 if assigned[0].rstrip().endswith(b":") else 6)
        return "a secret" if _changes(run) >= needed and not _UUID.match(run) else ""
    if len(run) == 40 and before.rstrip(b" \t")[-1:] in _OPENING and _CLOUD_SECRET.match(run):
        return "a cloud secret key" if _changes(run) >= len(run) / 4 and not run.islower() and not run.isupper() else ""
    return ""


def _changes(text: bytes) -> int:
    """How often lower case, upper case and digits change side by side, as in random text; a Word's start is none."""
    return sum(1 for pair in pairwise(text.translate(_KINDS)) if pair in _CHANGES)


def _told(what: str, content: bytes, at: int) -> str:
    line = content.count(b"\n", 0, at) + 1
    return f"holds what looks like {what} (line {line})"
