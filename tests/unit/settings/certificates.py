"""Certificates for tests, made by openssl: an authority, a server at 127.0.0.1, a client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.rigs.required_tools import give_up

KEY_PASSWORD = "密-key-password"  # noqa: S105 - of keys that live as long as a test


class Certificates(NamedTuple):
    """PEM files. ``server`` has key and certificate in one file; ``client_key`` is encrypted.

    ``client_store`` has key and certificate of the client as PKCS#12.
    """

    authority: Path
    other_authority: Path
    server: Path
    client: Path
    client_key: Path
    client_store: Path


def make_certificates(directory: Path) -> Certificates:
    """Make certificates in a directory; without openssl, skip the test or fail it."""
    if shutil.which("openssl") is None:
        give_up("no openssl on PATH to make certificates with")

    def openssl(*arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=120
        )

    def key_and_request(name: str) -> tuple[str, ...]:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return ("req", *key, "-keyout", f"{name}.key", "-subj", f"/CN={name}")

    # From 3.13 on, Python refuses an authority that does not say what its key may be used for.
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for authority in ("ca", "other"):
        openssl(
            *key_and_request(authority), "-x509", *usage, "-days", "2", "-out", f"{authority}.pem"
        )
    for name, subject in (("server", "IP:127.0.0.1"), ("client", "DNS:client")):
        (directory / f"{name}.cnf").write_text(f"subjectAltName={subject}\n")
        openssl(*key_and_request(name), "-out", f"{name}.csr")
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", f"{name}.cnf", "-out", f"{name}.pem"),
        )
    parts = [(directory / f"server.{part}").read_text() for part in ("key", "pem")]
    (directory / "both.pem").write_text("".join(parts))
    password = ("-passout", f"pass:{KEY_PASSWORD}")
    openssl("pkcs8", "-topk8", "-in", "client.key", "-out", "client-encrypted.key", *password)
    client = ("-inkey", "client.key", "-in", "client.pem")
    openssl("pkcs12", "-export", *client, "-out", "client.p12", *password)
    files = ("ca.pem", "other.pem", "both.pem", "client.pem", "client-encrypted.key", "client.p12")
    return Certificates(*(directory / file for file in files))
