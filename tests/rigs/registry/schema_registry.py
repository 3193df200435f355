"""A schema registry in the process of a test, with the API that clients and serializers use.

It serves real HTTP on a loopback port. It can be closed and opened again on the same port, require
a password or a token, and answer with errors, as registries do. It is the identity provider too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
import uuid
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self

from aiohttp import web
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.rigs.brokers.loopback_ports import free_port

START_SECONDS = 20.0


class Registered(NamedTuple):
    """A schema in the form in which it was registered; for Protobuf a descriptor in base64."""

    number: int
    body: dict[str, Any]

    @property
    def guid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(self.body, sort_keys=True)))


class SchemaRegistry:
    """Serves inside its block. ``asked`` counts requests by method and path.

    ``password`` (``user:password``) is required by basic authentication; None accepts everybody.
    ``oauth_client`` (``id:secret``) gets tokens at ``token_url``, and requests must have the newest
    token; ``token_seconds`` is its stated lifetime. ``broken`` is a status with which every request
    is answered; 0 for none. ``pause`` is the time in seconds before each byte of a schema by
    number; 0 sends them together. ``tls`` is for HTTPS.
    """

    def __init__(self, password: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.port = free_port()
        self._tls = tls
        self.password = password
        self.oauth_client: str | None = None
        self.token_seconds = 3600
        self.token_requests: list[Mapping[str, str]] = []
        self.broken = 0
        self.pause = 0.0
        self.asked: Counter[str] = Counter()
        self.schemas: list[Registered] = []
        self._versions: dict[str, list[Registered]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def _token(self) -> str:
        return f"token-{len(self.token_requests)}"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.close()

    def open(self) -> None:
        """Listen, with the schemas that were registered before."""
        started = threading.Event()
        serve = self._serve(started)
        self._thread = threading.Thread(target=asyncio.run, args=(serve,), daemon=True)
        self._thread.start()
        assert started.wait(START_SECONDS), "the registry did not start"

    def close(self) -> None:
        if self._thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(START_SECONDS)
            self._thread = None

    @cached_property
    def client(self) -> SchemaRegistryClient:
        return SchemaRegistryClient({"url": self.url, "max.retries": 0})

    def register(self, subject: str, body: dict[str, Any]) -> Registered:
        """Register a schema under a subject, as ``POST /subjects/…/versions`` does."""
        body = {"schemaType": "AVRO", "references": [], **body}
        kept = {name: body[name] for name in ("schema", "schemaType", "references")}
        found = next((each for each in self.schemas if each.body == kept), None)
        if found is None:
            found = Registered(len(self.schemas) + 1, kept)
            self.schemas.append(found)
        versions = self._versions.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found

    # ---- the server

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        application = web.Application(middlewares=[self._guarded])
        application.router.add_post("/token", self._give_token)
        application.router.add_get("/schemas/types", self._types)
        application.router.add_get("/schemas/ids/{number}", self._by_number)
        application.router.add_get("/schemas/guids/{guid}", self._by_guid)
        application.router.add_post("/subjects/{subject}", self._lookup)
        application.router.add_post("/subjects/{subject}/versions", self._register)
        application.router.add_get("/subjects/{subject}/versions/{version}", self._version)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
        started.set()
        await self._stop.wait()
        await runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401 - aiohttp's
        self.asked[f"{request.method} {request.path}"] += 1
        if self.broken:
            return web.Response(status=self.broken, text="<html>no registry here</html>")
        wanted = None if self.password is None else _basic(self.password)
        if self.oauth_client is not None and request.path != "/token":
            wanted = f"Bearer {self._token}"
        if wanted is not None and request.headers.get("Authorization") != wanted:
            return _error(401, 401, "Unauthorized")
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _give_token(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != _basic(self.oauth_client or ""):
            return web.json_response({"error": "invalid_client"}, status=401)
        form = await request.post()
        self.token_requests.append({name: str(value) for name, value in form.items()})
        answer = {"access_token": self._token, "token_type": "Bearer"}
        return web.json_response({**answer, "expires_in": self.token_seconds})

    async def _types(self, _: web.Request) -> web.Response:
        return web.json_response(["JSON", "PROTOBUF", "AVRO"])

    async def _by_number(self, request: web.Request) -> web.StreamResponse:
        number = request.match_info["number"]
        if not number.isdigit() or int(number) >= 2**31:  # JAX-RS answers so if it is no int
            return _error(404, 404, "HTTP 404 Not Found")
        found = next((each for each in self.schemas if each.number == int(number)), None)
        if found is None:
            return _error(404, 40403, f"Schema {number} not found")
        answer = {**_shown(found, request), "guid": found.guid}
        return await self._trickle(request, answer) if self.pause else web.json_response(answer)

    async def _trickle(self, request: web.Request, answer: object) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for byte in json.dumps(answer).encode():
            await asyncio.sleep(self.pause)
            await response.write(bytes([byte]))
        return response

    async def _by_guid(self, request: web.Request) -> web.Response:
        guid = request.match_info["guid"]
        found = next((each for each in self.schemas if each.guid == guid), None)
        if found is None:
            return _error(404, 404, "HTTP 404 Not Found")
        return web.json_response({**_shown(found, request), "guid": found.guid, "id": found.number})

    async def _register(self, request: web.Request) -> web.Response:
        found = self.register(request.match_info["subject"], await request.json())
        return web.json_response({"id": found.number, "guid": found.guid, **found.body})

    async def _lookup(self, request: web.Request) -> web.Response:
        subject = request.match_info["subject"]
        found = self.register(subject, await request.json())
        return web.json_response(self._described(subject, found))

    async def _version(self, request: web.Request) -> web.Response:
        subject, version = request.match_info["subject"], request.match_info["version"]
        versions = self._versions.get(subject, [])
        if not versions:
            return _error(404, 40401, f"Subject '{subject}' not found.")
        place = len(versions) if version == "latest" else int(version)
        if not 1 <= place <= len(versions):
            return _error(404, 40402, f"Version {version} not found.")
        found = versions[place - 1]
        return web.json_response({**self._described(subject, found), **_shown(found, request)})

    def _described(self, subject: str, found: Registered) -> dict[str, Any]:
        version = self._versions[subject].index(found) + 1
        names = {"subject": subject, "version": version, "id": found.number, "guid": found.guid}
        return {**names, **found.body}


def _shown(found: Registered, request: web.Request) -> dict[str, Any]:
    """Return a schema as the API does: for Protobuf the text, or the descriptor on request."""
    if found.body["schemaType"] == "PROTOBUF" and request.query.get("format") != "serialized":
        return {**found.body, "schema": 'syntax = "proto3";'}
    return found.body


def _basic(user_and_password: str) -> str:
    return "Basic " + base64.b64encode(user_and_password.encode()).decode()


def _error(status: int, code: int, message: str) -> web.Response:
    return web.json_response({"error_code": code, "message": message}, status=status)
