"""The settings of the schema registry and of access to it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from streams.documents.fields import FieldSettings
from streams.documents.schema_framing import KEY, SCHEMA_FORMATS, VALUE

_EXTRA: Final = ("attrs", "authlib", "cachetools", "certifi", "fastavro", "google.protobuf")
_JSON_SCHEMA: Final = ("jsonschema", "referencing", "regex")


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registry with the API of Confluent's, such as Karapace, Apicurio or Redpanda."""

    url: str | None = None
    username: str | None = None
    password: str | None = None
    password_file: str | None = None
    oauth_token_url: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: str | None = None
    oauth_client_secret_file: str | None = None
    oauth_scope: str | None = None
    oauth_cluster: str | None = None
    oauth_identity_pool: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
    validate: bool = True

    def __repr__(self) -> str:
        return masked_repr(self, "password", "oauth_client_secret")

    def problems(self, fields: FieldSettings) -> Iterator[tuple[str, str]]:
        """Yield the name of each setting that does not fit the others, and what it must be."""
        formats = schema_formats(fields)
        if not formats:
            if self.url is not None:
                others = f"{', '.join(SCHEMA_FORMATS[:-1])} or {SCHEMA_FORMATS[-1]}"
                message = f"fields.format is {fields.format}, so it has no effect: set {others}"
                yield "registry.url", message
            return
        if self.url is None:
            setting, format_ = next(iter(formats.items()))
            yield "registry.url", f"{setting} is {format_}: it must be given"
        elif (wrong := _wrong_url(self.url)) is not None:
            yield "registry.url", wrong
        for setting, format_ in formats.items():
            if missing := missing_packages(format_):
                yield (
                    setting,
                    f"{', '.join(missing)} not installed: pip install 'firstseen[registry]'",
                )
        yield from self._of_access()

    def _of_access(self) -> Iterator[tuple[str, str]]:
        for name in ("password", "oauth_client_secret"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                yield f"registry.{name}_file", f"registry.{name} is given too: choose one"
        has_password = self.password is not None or self.password_file is not None
        if has_password != (self.username is not None):
            yield "registry.username", "set both or neither: a user needs a password"
        if ":" in (self.username or ""):
            yield "registry.username", "basic authentication allows no colon in it"
        yield from self._of_oauth()
        if (self.certificate_file is None) != (self.key_file is None):
            yield (
                "registry.certificate_file",
                "registry.certificate_file and registry.key_file need each other",
            )
        for name in ("ca_file", "certificate_file", "key_file"):
            path = getattr(self, name)
            if path is not None and not Path(path).exists():
                yield f"registry.{name}", "there is no such file"

    def _of_oauth(self) -> Iterator[tuple[str, str]]:
        if self.oauth_token_url is None:
            for name in self.__struct_fields__:
                if name.startswith("oauth_") and getattr(self, name) is not None:
                    yield f"registry.{name}", "it has no effect without registry.oauth_token_url"
            return
        if (wrong := _wrong_url(self.oauth_token_url)) is not None or "," in self.oauth_token_url:
            yield "registry.oauth_token_url", wrong or "it must be one URL"
        if self.username is not None:
            yield "registry.username", "registry.oauth_token_url is given too: choose one"
        if self.oauth_client_id is None:
            yield "registry.oauth_client_id", "it must be given with registry.oauth_token_url"
        if self.oauth_client_secret is None and self.oauth_client_secret_file is None:
            yield (
                "registry.oauth_client_secret",
                "it or registry.oauth_client_secret_file must be given with the URL",
            )


def masked_repr(struct: msgspec.Struct, *secrets: str) -> str:
    shown = msgspec.structs.asdict(struct)
    shown |= {name: shown[name] and "(set)" for name in secrets}
    return f"{type(struct).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


def schema_formats(fields: FieldSettings) -> dict[str, str]:
    of_parts = {VALUE.setting: fields.format, KEY.setting: fields.key_format}
    return {name: value for name, value in of_parts.items() if value in SCHEMA_FORMATS}


def missing_packages(value_format: str) -> list[str]:
    wanted = [*_EXTRA, *(_JSON_SCHEMA if value_format == "json-schema" else ())]
    missing = [name for name in wanted if not _is_there(name)]
    return missing if _is_there("httpx2") or _is_there("httpx") else [*missing, "httpx2"]


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package that would contain it is missing
        return False


def _wrong_url(urls: str) -> str | None:
    for url in urls.split(","):
        try:
            parts = urlsplit(url.strip())
        except ValueError:
            return "it is not a URL"
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            return "each must begin with http:// or https:// and name a host"
        if parts.username or parts.password:
            return "give the user in registry.username and registry.password, which are not shown"
    return None
