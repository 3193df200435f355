"""The settings of the schema registry: where it is, and how its clients are let in."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from streams.documents.fields import FieldSettings
from streams.documents.schema_framing import SCHEMA_FORMATS

_EXTRA: Final = ("attrs", "authlib", "cachetools", "certifi", "fastavro", "google.protobuf")
_JSON_SCHEMA: Final = ("jsonschema", "referencing")
_PATH: Final = {"expected": "a path", "default": "none"}


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registry with the API of Confluent's, as Karapace, Apicurio and Redpanda have it too."""

    url: Annotated[
        str | None,
        Meta(
            extra={
                "expected": "URLs that begin with http:// or https://, with commas between them",
                "default": "none",
            },
            description="Where the schema registry is, for fields.format=avro, protobuf or "
            "json-schema.",
        ),
    ] = None
    username: Annotated[
        str | None,
        Meta(
            extra={"expected": "text without a colon", "default": "none"},
            description="User for basic authentication; of Confluent Cloud the API key.",
        ),
    ] = None
    password: Annotated[
        str | None,
        Meta(
            extra={"expected": "text", "default": "none"},
            description="Its password; of Confluent Cloud the API secret. Secret.",
        ),
    ] = None
    password_file: Annotated[
        str | None,
        Meta(
            extra=_PATH,
            description="A file that holds the password, instead of registry.password.",
        ),
    ] = None
    ca_file: Annotated[
        str | None,
        Meta(
            extra=_PATH | {"default": "the usual authorities"},
            description="Certificate authorities that the registry's certificate is checked "
            "against: a file of PEM, or a directory of such.",
        ),
    ] = None
    certificate_file: Annotated[
        str | None,
        Meta(extra=_PATH, description="Client certificate for mutual TLS, PEM."),
    ] = None
    key_file: Annotated[
        str | None,
        Meta(extra=_PATH, description="Its private key, PEM, not encrypted."),
    ] = None
    timeout_seconds: Annotated[
        float,
        Meta(
            ge=0.1,
            le=60,
            description="Longest wait for an answer of the registry, before the next try.",
        ),
    ] = 5.0
    validate: Annotated[
        bool,
        Meta(
            description="With fields.format=json-schema: whether a record that its schema does not "
            "allow is a dead letter. Without it a record needs to be JSON only, which takes a "
            "fraction of the time."
        ),
    ] = True

    def __repr__(self) -> str:
        """Every setting but the password."""
        shown = msgspec.structs.asdict(self) | {"password": self.password and "(set)"}
        return (
            f"RegistrySettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"
        )

    def problems(self, fields: FieldSettings) -> Iterator[tuple[str, str]]:
        """Yield the name of each setting that does not fit the others, and what it must be."""
        if fields.format not in SCHEMA_FORMATS:
            if self.url is not None:
                others = f"{', '.join(SCHEMA_FORMATS[:-1])} or {SCHEMA_FORMATS[-1]}"
                message = f"fields.format is {fields.format}, so it has no effect: set {others}"
                yield "registry.url", message
            return
        if self.url is None:
            yield "registry.url", f"fields.format is {fields.format}: it must be given"
        elif (wrong := _wrong_url(self.url)) is not None:
            yield "registry.url", wrong
        if missing := missing_packages(fields.format):
            yield (
                "fields.format",
                f"{', '.join(missing)} not installed: pip install 'firstseen[registry]'",
            )
        yield from self._of_access()

    def _of_access(self) -> Iterator[tuple[str, str]]:
        if self.password is not None and self.password_file is not None:
            yield "registry.password_file", "registry.password is given too: choose one"
        has_password = self.password is not None or self.password_file is not None
        if has_password != (self.username is not None):
            yield "registry.username", "a user needs a password, and a password a user"
        if ":" in (self.username or ""):
            yield "registry.username", "basic authentication allows no colon in it"
        if (self.certificate_file is None) != (self.key_file is None):
            yield (
                "registry.certificate_file",
                "registry.certificate_file and registry.key_file need each other",
            )
        for name in ("ca_file", "certificate_file", "key_file"):
            path = getattr(self, name)
            if path is not None and not Path(path).exists():
                yield f"registry.{name}", "there is no such file"


def missing_packages(value_format: str) -> list[str]:
    """Return what the extra ``registry`` would install and is not there."""
    wanted = [*_EXTRA, *(_JSON_SCHEMA if value_format == "json-schema" else ())]
    missing = [name for name in wanted if not _is_there(name)]
    return missing if _is_there("httpx2") or _is_there("httpx") else [*missing, "httpx2"]


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def _wrong_url(urls: str) -> str | None:
    for url in urls.split(","):
        try:
            parts = urlsplit(url.strip())
        except ValueError:
            return "it is no URL"
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            return "each must begin with http:// or https:// and name a host"
        if parts.username or parts.password:
            return "give the user by registry.username and registry.password, which are not shown"
    return None
