"""The bundled Java trusts whom Python trusts: the machine's certificates, written as a Java key store.

An installed Java has been set up by whoever installed it; the bundled one knows only the public authorities
of its day, and would fail wherever a company's proxy signs with a certificate of its own.
"""

import hashlib
import ssl
import struct
from pathlib import Path

from trickle.engine.cache import cache_directory, write_atomically

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
"""Where Linux and macOS keep their certificates, for a Python that was built to look elsewhere."""


def trust_store() -> Path | None:
    """A key store, in trickle's cache, of the certificates this machine trusts; None where there are none."""
    certificates = _trusted_certificates()
    if not certificates:
        return None
    content = key_store(certificates)
    path = cache_directory() / "java" / f"trust-{hashlib.sha256(content).hexdigest()[:12]}.jks"
    if not path.is_file():
        write_atomically(path, content)
    return path


def key_store(certificates: list[bytes]) -> bytes:
    """The DER certificates in Java's own key store format, version 2."""
    entries = [
        struct.pack(">I", 2) + _utf(f"ca-{number}") + struct.pack(">Q", 0)
        + _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
        for number, certificate in enumerate(certificates)
    ]  # fmt: skip
    content = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    # The format ends in this checksum, salted with Java's customary password: it finds damage, no more.
    salt = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
    return content + hashlib.sha1(salt + content, usedforsecurity=False).digest()


def _trusted_certificates() -> list[bytes]:
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        for bundle in filter(Path.is_file, map(Path, BUNDLES)):
            context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
