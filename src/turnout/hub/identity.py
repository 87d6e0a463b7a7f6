"""The certificate by which agents on other machines know this hub: made once, by ourselves, and known by its digest."""

from __future__ import annotations

import datetime
import hashlib
import ssl
from pathlib import Path

from turnout.home import write_private

_DAYS = 3650


def identity(file: Path) -> str:
    """The SHA-256 of the certificate in `file`, which has its key as well; both are made if they are not there."""
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, _make())
    text = file.read_text(encoding="ascii")
    certificate = text[text.index("-----BEGIN CERTIFICATE") :]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def _make() -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "turnout hub")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + made.public_bytes(serialization.Encoding.PEM)).decode()
