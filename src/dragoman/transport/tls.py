"""TLS: which authorities are trusted, and the certificate of this side."""

import ssl
import sys
from pathlib import Path
from typing import Literal

from msgspec import Struct

from dragoman.errors import ConfigError


class TLS(Struct, frozen=True, kw_only=True):
    """How a server is verified, and the client's certificate for mutual TLS.

    Attributes:
        verify: Check the server's certificate; switch this off only for tests.
        ca: A file with the authorities to trust instead of the system's.
        cert: A file with the client's certificate, for mutual TLS.
        key: A file with its private key; empty: in the same file.  A key with a password is rejected.
        minimum: The oldest version of TLS that is accepted.
    """

    verify: bool = True
    ca: str = ""  # file with the authorities to trust instead of the system's
    cert: str = ""  # the client's certificate, for mutual TLS
    key: str = ""  # its private key; empty: in the same file
    minimum: Literal["1.2", "1.3"] = "1.2"

    def context(self, *, environment: bool = False) -> ssl.SSLContext:
        """Return a new `ssl.SSLContext`; `environment`: without `ca`, `SSL_CERT_FILE` names the authorities.

        Raises:
            ConfigError: a file cannot be read or holds no certificate.
        """
        # Not `ssl.create_default_context`: from Python 3.13 on it refuses what many companies' authorities sign.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca:
                context.load_verify_locations(self.ca)
            elif self.verify and environment:
                context.load_default_certs()
            elif self.verify:
                _trust_the_system(context)
            if self.cert:
                # A key under a password is refused: there is no user to enter it.
                context.load_cert_chain(self.cert, self.key or None, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            file = next((one for one in (self.ca, self.cert, self.key) if not _is_file(one)), "")
            where = f"`{file}`: " if file else ""
            raise ConfigError(f"TLS: {where}{error.strerror or error}") from error
        context.minimum_version = ssl.TLSVersion[f"TLSv{self.minimum.replace('.', '_')}"]
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _trust_the_system(context: ssl.SSLContext) -> None:
    """Load the system's authorities from where they are, whatever the environment says."""
    if sys.platform == "win32":
        context.load_default_certs()
        return
    paths = ssl.get_default_verify_paths()
    file, folder = paths.openssl_cafile, paths.openssl_capath
    if Path(file).is_file():
        context.load_verify_locations(cafile=file)
    if Path(folder).is_dir():
        context.load_verify_locations(capath=folder)


def _is_file(name: str) -> bool:
    return not name or Path(name).is_file()
