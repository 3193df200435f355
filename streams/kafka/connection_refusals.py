"""Why a broker refuses a client: what the library says of it, and the setting to change.

Some reasons are certain: a wrong password stays wrong, so waiting does not help. Others are likely:
a broker that closes the connection at once may need TLS, or may be starting or stopping.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_CA: Final = (
    "the broker's certificate is not signed by a trusted authority, or is not for the name in "
    "brokers. Set kafka.ssl.ca.location to the authority that signed it, and brokers to a name "
    "that is in it"
)
_CERTIFICATE: Final = (
    "the broker needs a client certificate that it trusts. Set kafka.ssl.certificate.location and "
    "kafka.ssl.key.location to one that its authority signed, and that has not expired"
)
_NO_LOGIN: Final = (
    "this listener of the broker accepts no password: set SSL or PLAINTEXT, or another port in "
    "brokers"
)
_LOGIN: Final = (
    "the broker refuses kafka.sasl.username with this password: correct one of them. The password "
    "can be in a file, which kafka.sasl.password.file names"
)
_TLS: Final = (
    "the broker and this client do not agree on TLS: compare protocols and certificates of both"
)
_WANTS_MORE: Final = (
    "the broker closed the connection. If it answers others, it needs another "
    "kafka.security.protocol than {protocol}: {others}"
)


class ConnectionRefusal(NamedTuple):
    """``setting`` to change, and how; ``is_certain``: waiting does not help."""

    setting: str
    fix: str
    is_certain: bool


# The first that is found in what the library says.
_REASONS: Final[tuple[tuple[re.Pattern[str], ConnectionRefusal], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), ConnectionRefusal(setting, fix, is_certain=True))
    for pattern, setting, fix in (
        (
            "unsupported sasl mechanism",
            "kafka.sasl.mechanism",
            "the broker does not offer this mechanism: use one that it offers",
        ),
        (
            "not valid in current sasl state",
            "kafka.security.protocol",
            _NO_LOGIN,
        ),
        (
            "sasl authentication error: (?!saslauthenticaterequest failed)|authentication failed",
            "kafka.sasl.password",
            _LOGIN,
        ),
        ("certificate verify failed", "kafka.ssl.ca.location", _CA),
        (
            "alert (bad )?certificate|alert unknown ca",
            "kafka.ssl.certificate.location",
            _CERTIFICATE,
        ),
        (
            "ssl alert number|unsupported protocol|no shared cipher",
            "kafka.security.protocol",
            _TLS,
        ),
    )
)
_HANGS_UP: Final = re.compile(
    r"disconnected\b.*in state (apiversion_query|ssl_handshake|up)", re.IGNORECASE
)
_OTHERS: Final = {
    "PLAINTEXT": "SSL, SASL_SSL or SASL_PLAINTEXT",
    "SASL_PLAINTEXT": "SASL_SSL",
    "SSL": "SASL_SSL, or PLAINTEXT without encryption",
    "SASL_SSL": "SASL_PLAINTEXT without encryption, or SSL without a password",
}


def refusal_of(said: str, protocol: str) -> ConnectionRefusal | None:
    """Return what the library's words mean; None where the broker is just not there.

    ``protocol`` is the ``security.protocol`` that was used.
    """
    for pattern, refused in _REASONS:
        if pattern.search(said):
            return refused
    if _HANGS_UP.search(said):
        fix = _WANTS_MORE.format(
            protocol=protocol, others=_OTHERS.get(protocol, "see its listeners")
        )
        return ConnectionRefusal("kafka.security.protocol", fix, is_certain=False)
    return None
