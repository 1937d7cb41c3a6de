"""Certificates, made while tests run: authorities, servers and clients, good ones and bad ones."""

import datetime as dt
import ipaddress
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)
_HERE = (x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost"))
_ELSEWHERE = (x509.DNSName("other.example"),)
_CLIENT = (x509.DNSName("client.example"),)


class _Made:
    """A certificate and its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @property
    def shown(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def secret(self, password: bytes = b"") -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption(),
        )


def _sign(name: str, by: _Made | None, last_day: int, *extensions: x509.ExtensionType) -> _Made:
    """Return a certificate, signed by an authority, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * _DAY)
        .not_valid_after(now + last_day * _DAY)
    )
    owned = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    for one in (*extensions, *(() if by else (owned,))):
        made = made.add_extension(one, critical=isinstance(one, x509.BasicConstraints))
    return _Made(made.sign(key if by is None else by.key, hashes.SHA256()), key)


def _authority(name: str) -> _Made:
    usage = x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return _sign(name, None, 30, x509.BasicConstraints(ca=True, path_length=None), usage)


def _server(by: _Made, names: Sequence[x509.GeneralName] = _HERE, *, last_day: int = 30) -> _Made:
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    return _sign("a server", by, last_day, x509.SubjectAlternativeName(names), purpose, signer)


def _server_of_old(by: _Made) -> _Made:
    """Return what many companies' authorities sign: nothing in it names the key of its signer."""
    return _sign("a server", by, 30, x509.SubjectAlternativeName(_HERE))


def _client(by: _Made) -> _Made:
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return _sign("a client", by, 30, x509.SubjectAlternativeName(_CLIENT), purpose)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="certificates-")
    authority, stranger = _authority("an authority"), _authority("a stranger")
    client = _client(authority)
    both = {
        "server.pem": _server(authority),  # 127.0.0.1 and localhost
        "old-server.pem": _server_of_old(authority),
        "wrong-host.pem": _server(authority, _ELSEWHERE),
        "expired.pem": _server(authority, last_day=-1),
        "client.pem": client,
        "strange-client.pem": _client(stranger),
    }
    files = {name: one.shown + one.secret() for name, one in both.items()}
    files |= {
        "authority.pem": authority.shown,  # whom tests trust
        "stranger.pem": stranger.shown,  # whom nobody trusts
        "client.crt": client.shown,
        "client.key": client.secret(),
        "locked.key": client.secret(b"a password"),
        "no-certificate.pem": b"nothing of the kind\n",
    }
    for name, data in files.items():
        (Path(folder.name) / name).write_bytes(data)
    return folder


def certificate(name: str) -> str:
    """Return the path of a file; those of servers and clients hold certificate and key."""
    path = Path(_folder().name) / name
    assert path.is_file(), name
    return str(path)
