"""The key store written in Python is one that Java reads."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from trickle.engine.java import _bundled
from trickle.engine.trust import key_store, trust_store


def test_java_reads_every_certificate_of_the_store(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    certificates = context.get_ca_certs(binary_form=True)
    if not certificates:
        pytest.skip("this machine lists no certificates")
    store = tmp_path / "trust.jks"
    store.write_bytes(key_store(certificates))
    java = _bundled()
    assert java is not None
    keytool = [java.home / "bin" / "keytool", "-J-Duser.language=en", "-list", "-storepass", "changeit"]
    run = subprocess.run([*keytool, "-keystore", store], capture_output=True, text=True, check=True)
    assert run.stdout.count("trustedCertEntry") == len(certificates)


def test_store_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKLE_CACHE", str(tmp_path))
    first = trust_store()
    assert trust_store() == first
    assert first is None or list(first.parent.iterdir()) == [first]
