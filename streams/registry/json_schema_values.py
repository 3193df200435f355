"""JSON values beside a JSON Schema: read as all JSON is, and validated by jsonschema.

Nothing is fetched for a reference: what the registry did not give with the schema is not there. So
a schema cannot make a worker ask other servers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streams.documents.json_values import decode_json
from streams.registry.fetched_schema import Decode, FetchedSchema, bad_schema, not_of_schema


def json_decoder(schema: FetchedSchema, *, validate: bool) -> Decode:
    """Return what decodes a value of a schema; raises ``UnreadableError`` (``BAD_SCHEMA``)."""
    if not validate:
        return decode_json
    validator = _validator(schema)

    def decode(content: bytes) -> object:
        value = decode_json(content)
        try:
            error = next(validator.iter_errors(value), None)
        except Exception as failure:  # noqa: BLE001 - a reference that is not there, a regex, depth
            raise bad_schema(f"its JSON Schema cannot be used: {type(failure).__name__}") from None
        if error is not None:
            # The message of the error repeats the value; where the rule stands does not.
            rule = "/".join(map(str, error.absolute_schema_path))
            raise not_of_schema(f"its JSON Schema does not allow it, by the rule {rule}")
        return value

    return decode


def _validator(schema: FetchedSchema) -> Any:  # noqa: ANN401 - jsonschema's protocol has no types
    from jsonschema.validators import Draft7Validator, validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    try:
        registry: Registry[Any] = Registry()
        for reference in schema.references:
            content = msgspec.json.decode(reference.text)
            resource = Resource.from_contents(content, default_specification=DRAFT7)
            registry = registry.with_resource(reference.name, resource)
        parsed = msgspec.json.decode(schema.text)
        of_draft = validator_for(parsed, default=Draft7Validator)
        of_draft.check_schema(parsed)
        return of_draft(parsed, registry=registry)
    except Exception as error:  # noqa: BLE001 - a schema may be anything
        raise bad_schema(f"no JSON Schema: {type(error).__name__}") from None
