"""Secrets in files: read from every source that can name one, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.settings.reference import text_rows
from tests.unit.settings.sources import load, problems_of

SASL = (
    "kafka.security.protocol=SASL_SSL",
    "kafka.sasl.mechanism=SCRAM-SHA-512",
    "kafka.sasl.username=lu",
)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_in_a_file(tmp_path: Path, end: str) -> None:
    """Given a file named by the environment, a properties file or a flag, then the password is what
    the file holds less one end of line; where it came from is shown, and it is not.
    """
    (secret := tmp_path / "password").write_bytes(f"hush hush{end}".encode())
    (properties := tmp_path / "client.properties").write_text(f"sasl.password.file={secret}\n")

    for loaded in (
        load(*SASL, environ={"FIRSTSEEN_KAFKA__SASL_PASSWORD_FILE": str(secret)}),
        load(*SASL, kafka_config=properties),
        load(*SASL, f"kafka.sasl.password.file={secret}"),
    ):
        assert loaded.settings.kafka["sasl.password"] == "hush hush"
        assert "sasl.password.file" not in loaded.settings.kafka
        assert "kafka.sasl.password.file" in loaded.origin_of("kafka.sasl.password")
        assert "hush" not in repr(text_rows(loaded)) + repr(loaded.settings)


def test_a_file_goes_by_its_source(tmp_path: Path) -> None:
    """Given a password in the environment and a file in a properties file, then the environment
    goes first, as with any setting; given both in one source, then that is refused.
    """
    (secret := tmp_path / "password").write_text("from the file")
    (properties := tmp_path / "client.properties").write_text(f"sasl.password.file={secret}\n")
    environ = {"FIRSTSEEN_KAFKA__SASL_PASSWORD": "from the environment"}

    loaded = load(*SASL, environ=environ, kafka_config=properties)
    problems = problems_of(*SASL, "kafka.sasl.password=x", f"kafka.sasl.password.file={secret}")

    assert loaded.settings.kafka["sasl.password"] == "from the environment"
    assert "choose one" in problems["kafka.sasl.password.file"].message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"", "empty"),
        (b"\n", "empty"),
        (b"\xff", "not UTF-8"),
        (b"x" * 70_000, "more than"),
        (b"a\0b", "not text"),
    ],
)
def test_files_that_hold_no_secret(tmp_path: Path, content: bytes | None, says: str) -> None:
    """Given a file that is missing, empty or no text, then that is refused with the reason, without
    the path: it may be the secret itself, given by the wrong name.
    """
    secret = tmp_path / "hush"
    if content is not None:
        secret.write_bytes(content)

    problems = problems_of(*SASL, f"kafka.sasl.password.file={secret}")

    assert says in problems["kafka.sasl.password.file"].message
    assert "hush" not in str(list(map(str, problems.values())))
