"""Certificates for tests, made by openssl: an authority, a server at 127.0.0.1, a client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.rigs.required_tools import give_up

KEY_PASSWORD = "密-key-password"  # noqa: S105 - of keys that live as long as a test


class Certificates(NamedTuple):
    """PEM files. ``server``: key and certificate in one; ``client_key`` is encrypted.

    ``client_store``: key and certificate of the client as PKCS#12.
    """

    authority: Path
    other_authority: Path
    server: Path
    client: Path
    client_key: Path
    client_store: Path


def make_certificates(directory: Path) -> Certificates:
    """Make them in a directory; gives the test up where there is no openssl."""
    if shutil.which("openssl") is None:
        give_up("no openssl on PATH to make certificates with")

    def openssl(*arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=120
        )

    def key_and_request(name: str) -> tuple[str, ...]:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return ("req", *key, "-keyout", f"{name}.key", "-subj", f"/CN={name}")

    for authority in ("ca", "other"):
        openssl(*key_and_request(authority), "-x509", "-days", "2", "-out", f"{authority}.pem")
    (directory / "server.cnf").write_text("subjectAltName=IP:127.0.0.1\n")
    (directory / "client.cnf").write_text("subjectAltName=DNS:client\n")
    for name in ("server", "client"):
        openssl(*key_and_request(name), "-out", f"{name}.csr")
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", f"{name}.cnf", "-out", f"{name}.pem"),
        )
    (directory / "both.pem").write_text(
        (directory / "server.key").read_text() + (directory / "server.pem").read_text()
    )
    openssl(
        *("pkcs8", "-topk8", "-in", "client.key", "-out", "client-encrypted.key"),
        *("-passout", f"pass:{KEY_PASSWORD}"),
    )
    openssl(
        *("pkcs12", "-export", "-inkey", "client.key", "-in", "client.pem"),
        *("-out", "client.p12", "-passout", f"pass:{KEY_PASSWORD}"),
    )
    return Certificates(
        directory / "ca.pem",
        directory / "other.pem",
        directory / "both.pem",
        directory / "client.pem",
        directory / "client-encrypted.key",
        directory / "client.p12",
    )
