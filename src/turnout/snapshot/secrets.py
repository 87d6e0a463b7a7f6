"""What looks like a secret, by name and by content. Made for precision: ordinary code, hashes and data pass.

Scanning must not make a capture slow, and a Python loop over text is. Nearly every secret of a known form contains an
unbroken run of letters, digits and ``-+/`` that is longer than the words of code or prose. Such runs are found at the
speed of `bytes.find`, in many files at once, and only they are looked at closely.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import Final

RULES: Final = 1
"""to be raised with every change here: verdicts are remembered"""

SCANNED: Final = 1 << 20
"""how much of a file is scanned"""

_RUN = 18
_LONGEST = 400  # longer ones are embedded data
_CORE = re.compile(rb"[A-Za-z0-9+/-]")
_CLASSES = bytes(ord("a") if _CORE.match(bytes([byte])) else ord(" ") for byte in range(256))
_NEEDLE = b"a" * _RUN
_WORD_BEFORE = re.compile(rb"[A-Za-z0-9_+/-]*\Z")
_WORD_BEHIND = re.compile(rb"[A-Za-z0-9_+/-]*")
_DIGIT = re.compile(rb"[0-9]")
_HEAD = 8192  # a zero byte in here: not text
_BETWEEN = b"\n\1\n"  # nothing that is looked for can reach across this

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
_PASSWORD = re.compile(rb"(?i)assword[\"']?\]?\s*(?:=>|:=|[:=])\s*[bru]?([\"'])([^\"'\s${}<>]{12,64})\1")
_AWS = (b"AKIA", b"ASIA")
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

    `path` is relative with ``/``; `content` is the file or its beginning, of which SCANNED bytes are looked at.
    """
    return judge_all([(path, content)])[0]


def judge_all(files: Sequence[tuple[str, bytes]]) -> list[str]:
    """The same for many files, at a fraction of the cost."""
    verdicts = [""] * len(files)
    for file, (path, content) in enumerate(files):
        if path[path.rfind("/") + 1] in _SUSPECT or path.endswith(_STORES):
            verdicts[file] = _by_name(path, content)
    texts = [content[:SCANNED] for _, content in files]
    text = _BETWEEN.join(texts)
    if b"\0" in text:
        texts = [b"" if b"\0" in each[:_HEAD] else each for each in texts]
        text = _BETWEEN.join(texts)
    starts = list(accumulate((len(each) + len(_BETWEEN) for each in texts), initial=0))
    for at, what in _found_in(text):
        file = bisect_right(starts, at) - 1
        line = text.count(b"\n", starts[file], at) + 1
        verdicts[file] = verdicts[file] or f"holds what looks like {what} (line {line})"
    return verdicts


def _by_name(path: str, content: bytes) -> str:
    lower = path.rpartition("/")[2].lower()
    if not content:
        return ""
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


def _found_in(text: bytes) -> Iterator[tuple[int, str]]:
    """Where there is something secret, and what."""
    for at in _each(text, b"PRIVATE KEY", rare=b"Y"):
        if key := _PEM.match(text, max(text.rfind(b"-----BEGIN ", max(at - 60, 0), at), 0)):
            yield key.start(), "a private key"
    for at in chain(_each(text, b"assword"), _each(text, b"ASSWORD", rare=b"W")):
        if (assigned := _PASSWORD.match(text, at)) and _changes(assigned[2]) * 5 >= len(assigned[2]):
            yield at, "a password"
    classes = text.translate(_CLASSES)
    start = classes.find(_NEEDLE)
    while start >= 0:
        end = classes.find(b" ", start)
        if end < 0:
            end = len(text)
        if _DIGIT.search(text, start, end) or text[start - 3 : start] == b"hf_" or text[start : start + 4] in _AWS:
            first, end = _word_around(text, start, end)
            if end - first <= _LONGEST and (what := _in_word(text, first, end)):
                yield first, what
        start = classes.find(_NEEDLE, end)


def _each(text: bytes, word: bytes, rare: bytes = b"") -> Iterator[int]:
    """Every place of `word`. With a `rare` letter of it, by that: one byte is found several times as fast as a word."""
    needle, back = rare or word, word.index(rare or word)
    at = text.find(needle)
    while at >= 0:
        if text.startswith(word, at - back) and at >= back:
            yield at - back
        at = text.find(needle, at + 1)


def _word_around(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The run from `start` to `end` with what is joined to it by underscores."""
    before, behind = _WORD_BEFORE.search(text, max(start - 100, 0), start), _WORD_BEHIND.match(text, end)
    return (before.start() if before else start), (behind.end() if behind else end)


def _in_word(text: bytes, start: int, end: int) -> str:
    """What secret a word of letters, digits and ``_-+/`` is; "" for none."""
    token = _TOKEN.search(text, start, end)
    if token and not set(token[0][-16:].lower()) <= _PLACEHOLDER:
        return _OWNERS[str(token.lastgroup)]
    before = text[max(start - 80, 0) : start]
    word = text[start:end]
    if assigned := _ASSIGNED.search(before):
        # `private_key: SomeType2` is an annotation; a value in quotes or behind `=` needs less to be believed.
        needed = len(word) / (4 if assigned[0].rstrip().endswith(b":") else 6)
        return "a secret" if _changes(word) >= needed and not _UUID.match(word) else ""
    if len(word) == 40 and before.rstrip(b" \t")[-1:] in _OPENING and _CLOUD_SECRET.match(word):
        mixed = not word.islower() and not word.isupper()
        return "a cloud secret key" if mixed and _changes(word) >= len(word) / 4 else ""
    return ""


def _changes(text: bytes) -> int:
    """How often lower case, upper case and digits change side by side, as in random text; a Word's start is none."""
    return sum(1 for pair in pairwise(text.translate(_KINDS)) if pair in _CHANGES)
