"""What looks like a secret is refused by name; what only resembles one is taken. The secrets here are put together at
run time, so that this file is none itself."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import sysconfig
import uuid
from pathlib import Path

import pytest

import turnout
from turnout import errors
from turnout.snapshot import capture
from turnout.snapshot.secrets import SCANNED, judge, judge_all

RNG = random.Random(7)
ALNUM = string.ascii_letters + string.digits


def noise(length: int, alphabet: str = ALNUM) -> str:
    """Random text with a letter of each kind in it, as tokens have."""
    text = [RNG.choice(alphabet) for _ in range(length)]
    text[1:4] = ["x", "7", "Q"]
    return "".join(text)


def pem(kind: str = "RSA ", newline: str = "\n") -> str:
    lines = [noise(64, ALNUM + "+/") for _ in range(5)]
    return newline.join(
        [f"-----BEGIN {kind}PRIVATE" + " KEY-----", *lines, f"-----END {kind}PRIVATE" + " KEY-----", ""]
    )


@pytest.mark.parametrize(
    "path",
    [
        ".env", "deploy/.env", ".env.production", ".env.local", "id_rsa", "keys/id_ed25519", ".netrc", "_netrc",
        ".git-credentials", ".aws/credentials", "home/.aws/credentials", ".kube/config", "kubeconfig",
        ".docker/config.json", "vault.kdbx", "server.p12", "server.pfx", "store.jks", "login.ppk", ".pgpass",
        "application_default_credentials.json", ".ENV",
    ],
)  # fmt: skip
def test_names_of_secrets(path: str) -> None:
    assert "by its name" in judge(path, b"anything")


@pytest.mark.parametrize(
    "path",
    [
        ".env.example", ".env.sample", ".env.template", ".envrc", "env.py", "environment.yml", "id_rsa.pub",
        "credentials.py", "config", "aws/credentials_test.py", "known_hosts", ".npmrc", ".pypirc", "cert.pem",
        "public.key", "idea.py", "kube.py", "keystore.py", "tokens.json", "secrets.py", "password_reset.html",
    ],
)  # fmt: skip
def test_names_that_are_fine(path: str) -> None:
    assert judge(path, b"registry=https://example.org\n") == ""


def test_a_secret_file_that_is_empty_is_none() -> None:
    assert judge(".env", b"") == ""


SECRETS = {
    "a private key": pem(),
    "an openssh key": pem("OPENSSH "),
    "an encrypted key": pem("ENCRYPTED "),
    "a key with headers": pem().replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,01\n\n", 1),
    "a key in JSON": json.dumps({"type": "service_account", "private_key": pem("")}),
    "an AWS access key": "aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE",
    "a temporary AWS key": "'ASIA" + noise(16, string.ascii_uppercase + string.digits).upper() + "'",
    "an AWS secret": "aws_secret_access_key = wJalrXUtn" + "FEMI/K7MDENG/bPxRfi" + "CYEXAMPLEKEY",
    "forty random characters": f'KEY = "{noise(40, ALNUM + "+/")}"',
    "a GitHub token": f"token: ghp_{noise(36)}",
    "a GitHub token in a URL": f"git clone https://x:gho_{noise(36)}@github.com/o/r",
    "a fine-grained GitHub token": f"github_pat_{noise(22)}_{noise(59)}",
    "a GitLab token": f"GITLAB = 'glpat-{noise(20)}'",
    "an OpenAI key": f'client = Client("sk-{noise(48)}")',
    "an OpenAI project key": f"sk-proj-{noise(80, ALNUM + '_-')}",
    "an Anthropic key": f"sk-ant-api03-{noise(90, ALNUM + '_-')}",
    "a Slack token": f"xoxb-{'1234567' * 2}-{noise(24)}",
    "a Hugging Face token": "hf_" + "".join(RNG.choices(string.ascii_letters, k=34)),
    "a Google key": f"?key=AIza{noise(35)}",
    "a Stripe key": f"sk_live_{noise(24)}",
    "an npm token": f"//registry.npmjs.org/:_authToken=npm_{noise(36)}",
    "a PyPI token": f"pypi-AgEIcHlwaS5vcmc{noise(60)}",
    "an assigned secret": f'API_SECRET = "{noise(32)}"',
    "a hex key": f'api_key: "{hashlib.md5(b"x").hexdigest()}"',
    "a secret in JSON": json.dumps({"auth": {"access_token": noise(40, ALNUM + "_-")}}),
    "a secret in a shell": f"export DB_PASSWORD={noise(24)}",
    "a password with signs": 'password = "x7#kQ!' + '29sK@zB4"',
    "a password in capitals": "'PASSWORD': 'x7#kQ!" + "29sK@zB4',",
}


@pytest.mark.parametrize("what", SECRETS)
def test_contents_that_are_secrets(what: str) -> None:
    content = ("import os\n" * 3 + SECRETS[what] + "\nprint()\n").encode()
    assert "(line 4)" in judge("settings.py", content)
    assert judge("settings.py", SECRETS[what].encode())


HARMLESS = {
    "a commit": 'COMMIT = "da39a3ee5e6b4b0d3255bfef95601890afd80709"',
    "a requirement": "numpy==1.26.0 --hash=sha256:" + hashlib.sha256(b"1").hexdigest(),
    "a lock file": f'{{"integrity": "sha512-{base64.b64encode(hashlib.sha512(b"2").digest()).decode()}"}}',
    "a go.sum": f"golang.org/x/text v0.3.0 h1:{base64.b64encode(hashlib.sha256(b'3').digest()).decode()}",
    "a uuid": f'TOKEN = "{uuid.UUID(int=RNG.getrandbits(128))}"',
    "a digest": f"digest: {hashlib.sha256(b'4').hexdigest()}",
    "a notebook image": json.dumps({"image/png": base64.b64encode(RNG.randbytes(30_000)).decode()}),
    "base64 in lines": base64.encodebytes(RNG.randbytes(1_000)).decode(),
    "a certificate": pem().replace("PRIVATE" + " KEY", "CERTIFICATE"),
    "a public key": pem("").replace("PRIVATE" + " KEY", "PUBLIC KEY"),
    "code about keys": 'HEADER = "-----BEGIN PRIVATE' + ' KEY-----"\nif text.startswith(HEADER): ...',
    "documentation about keys": "-----BEGIN PRIVATE" + " KEY-----\n...\n-----END PRIVATE" + " KEY-----",
    "a placeholder": 'token = "ghp_' + "x" * 36 + '"',
    "another placeholder": 'API_KEY = "<your-api-key-goes-here-2024>"',
    "a variable": "password: ${DB_PASSWORD_OF_PRODUCTION_2}",
    "a lookup": 'api_key = os.environ["MY_SERVICE_API_KEY_2024"]',
    "a function": "token=get_token_from_the_vault_v2(name)",
    "an annotation": "private_key: PKCS7PrivateKeyTypes2,",
    "a model": 'token = "meta-llama/Llama-2-70b-chat-hf-2024"',
    "special tokens": '"pad_token": "<|reserved_special_token_250|>", "eos_token": "</s>"',
    "a long name": "def test_that_something_very_long_happens_2_times_in_a_row(): ...",
    "a class": "class SomeVeryLongControllerFactoryBean2ImplWithTests: ...",
    "a path": '"/usr/lib/x86_64-linux-gnu/libcudnn_ops_infer.so.8"',
    "a url": "https://example.org/a/b/c0123456789/d?x=1&token=short",
    "a word of forty": "task-" + "abcdefghij" * 4,
    "a table of numbers": "\n".join(f"{RNG.random():.20f},{RNG.getrandbits(64)}" for _ in range(50)),
    "a ruler": "# " + "-" * 77,
    "a password field": '<input type="password" name="password" placeholder="password">',
    "a weak password": 'password = "correct-horse-battery-staple"',
    "a test password": "password='password123'",
}


@pytest.mark.parametrize("what", HARMLESS)
def test_contents_that_only_resemble_secrets(what: str) -> None:
    assert judge("settings.py", HARMLESS[what].encode()) == ""


def test_only_text_is_scanned_and_only_its_beginning() -> None:
    secret = SECRETS["a GitHub token"].encode()
    assert judge("x", secret)
    assert judge("x", b"\0" + secret) == ""
    assert judge("x", b" " * (SCANNED - 100) + secret)
    assert judge("x", b" " * SCANNED + secret) == ""


def test_many_files_at_once_are_judged_as_each_by_itself() -> None:
    files = [(f"f{n}.py", text.encode()) for n, text in enumerate([*SECRETS.values(), *HARMLESS.values()])]
    files += [(".env", b"x"), ("empty", b""), ("binary", b"\0" + SECRETS["a private key"].encode())]
    RNG.shuffle(files)
    assert judge_all(files) == [judge(path, content) for path, content in files]


def test_nothing_reaches_from_one_file_into_the_next() -> None:
    value = noise(32)
    files = [
        ("a", b"password = "),
        ("b", value.encode()),
        ("c", b"-----BEGIN PRIVATE" + b" KEY-----\n"),
        ("d", b"MIIEvQIBADANBg"),
    ]
    assert judge_all(files) == ["", "", "", ""]


def test_ordinary_code_is_not_refused() -> None:
    """The standard library, and turnout itself with its tests."""
    ours = Path(turnout.__file__).parent
    files = [
        *Path(sysconfig.get_paths()["stdlib"]).glob("*.py"),
        *ours.rglob("*.py"),
        *Path(__file__).parent.glob("*.py"),
    ]
    assert len(files) > 200
    verdicts = judge_all([(path.name, path.read_bytes()) for path in files])
    assert {str(path): verdict for path, verdict in zip(files, verdicts, strict=True) if verdict} == {}


def test_a_tree_with_secrets_is_refused_with_every_file_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "conf").mkdir(parents=True)
    (root / ".env").write_text("A=1")
    (root / "conf/id_ed25519").write_text(pem("OPENSSH "))
    (root / "conf/settings.py").write_text(SECRETS["forty random characters"])
    (root / "train.py").write_text("print()")
    with pytest.raises(errors.SnapshotRefused) as caught:
        capture(root, cache=tmp_path / "cache")
    assert caught.value.message.splitlines()[1:] == [
        "  .env: looks like a file of secret settings by its name",
        "  conf/id_ed25519: looks like a private key by its name",
        "  conf/settings.py: holds what looks like a cloud secret key (line 1)",
    ]
    with pytest.raises(errors.SnapshotRefused) as caught:
        capture(root, cache=tmp_path / "cache", allow_secrets=["./.env", "conf/id_*"])
    assert len(caught.value.message.splitlines()) == 2
    allowed = capture(root, cache=tmp_path / "cache", allow_secrets=[".env", "conf/*"])
    assert allowed.files == 4
