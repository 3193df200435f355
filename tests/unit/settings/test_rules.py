"""Rules about several settings: what is refused, with the reason and without secrets."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest

from simhash_core.text.profiles import PROFILES
from streams.settings import registry
from streams.settings.reference import rows, text_rows
from streams.settings.settings import is_loopback
from tests.unit.settings.sources import load, problems_of, settings_of

DAY_MS = 86_400_000
SECRET = "hush-16-signs-and-more"  # noqa: S105 - a test's
AVRO = "fields.format=avro"
URL = "registry.url=http://registry:8081"
BOTH = (AVRO, URL)
USER = "registry.username=a"
PASSWORD = f"registry.password={SECRET}"
TOKENS = "registry.oauth_token_url=https://idp/token"
CLIENT = (*BOTH, TOKENS, "registry.oauth_client_id=worker")
OAUTH = (*CLIENT, f"registry.oauth_client_secret={SECRET}")

# The setting that is named, a part of the message, and the assignments.
REFUSED: list[tuple[str, ...]] = [
    *(("brokers", "not an address", f"brokers={value}") for value in ("a", ":9092", "a b:1")),
    *(("brokers", "no port", f"brokers={value}") for value in ("a:", "a:0", "a:65536", "a:１")),
    ("brokers", "'b:x' has no port", "brokers=a:1,b:x"),
    ("brokers", "brackets", "brokers=::1:9092"),
    ("brokers", "scheme", "brokers=kafka://a:1"),
    ("brokers", "at least one", "brokers=,"),
    ("profile", ", ".join(sorted(PROFILES)), "profile=narrow"),
    ("index.distance", "from 0 to 255", "index.distance=256"),
    ("index.bits", "100", "index.bits=100"),
    ("index.blocks", "80 bits", "profile=classic", "index.blocks=5"),
    ("index.band_bins", "has no bands", "profile=classic", "index.band_bins=3"),
    ("index.segmenter", "jieba-posseg", "index.segmenter=jeiba"),
    ("index.weighting", "tfidf-sublinear", "index.weighting=bm25"),
    ("index.feature_hash", "java, xxh3", "index.feature_hash=md5"),
    ("index.window", "such as 30d", "index.window=30 days"),
    ("index.window", "same time", "index.window=0d"),
    ("index.window", "more than 36500d", "index.window=40000d"),
    ("index.lateness", "soon", "index.window=30d", "index.lateness=soon"),
    ("index.lateness", "index.window", "index.lateness=1h"),
    ("index.same_id", "replace", "index.same_id=update"),
    # Outputs on a topic that Kafka takes for the raw topic would be read as input.
    ("topics.unique", "differ from topics.raw", "topics.unique=raw-documents"),
    ("topics.dead_letters", "differ from topics.raw", "topics.dead_letters=raw-documents"),
    ("topics.log", "differ from topics.raw", "topics.raw=firstseen.log"),
    ("topics.duplicates", "more than . and _", "topics.duplicates=a.b", "topics.raw=a_b"),
    ("topics.tagged", "differ from topics.raw", "mode=tag", "topics.tagged=raw-documents"),
    *(("topics.raw", "not a valid topic name", f"topics.raw={name}") for name in ("", ".", "..")),
    ("batch.bundles", "12697", "batch.documents=1000", "batch.bundles=13"),
    ("in_flight.documents", "batch.documents", "in_flight.documents=10", "batch.documents=11"),
    ("state_dir", "directory", f"state_dir={__file__}"),
    ("registry.url", "must be given", AVRO),
    ("registry.url", "no effect", URL),
    ("registry.url", "fields.key_format is protobuf", "fields.key_format=protobuf"),
    ("registry.url", "no effect", URL, "fields.format=json"),
    ("registry.url", "http://", AVRO, "registry.url=registry:8081"),
    ("registry.url", "host", AVRO, "registry.url=http://"),
    ("registry.url", "http://", AVRO, "registry.url=http://a, b:1"),
    ("registry.url", "registry.username", AVRO, "registry.url=http://a:b@c"),
    ("registry.username", "password", *BOTH, USER),
    ("registry.username", "a user needs a password", *BOTH, PASSWORD),
    ("registry.username", "no colon", *BOTH, "registry.username=a:b", PASSWORD),
    ("registry.password_file", "choose one", *BOTH, USER, PASSWORD, "registry.password_file=b"),
    (
        "registry.certificate_file",
        "registry.key_file",
        *BOTH,
        "registry.certificate_file=/dev/null",
    ),
    ("registry.ca_file", "no such file", *BOTH, "registry.ca_file=/no/such"),
    ("registry.oauth_scope", "no effect", *BOTH, "registry.oauth_scope=a"),
    ("registry.oauth_client_id", "must be given", *BOTH, TOKENS),
    ("registry.oauth_client_secret", "must be given", *BOTH, TOKENS),
    ("registry.oauth_token_url", "one URL", *BOTH, f"{TOKENS},http://b"),
    ("registry.oauth_token_url", "http://", *BOTH, "registry.oauth_token_url=idp/token"),
    ("registry.username", "choose one", *OAUTH, USER, PASSWORD),
    (
        "registry.oauth_client_secret_file",
        "choose one",
        *OAUTH,
        "registry.oauth_client_secret_file=a",
    ),
    ("web.token_file", "given too", f"web.token={SECRET}", "web.token_file=x"),
    *(
        ("web.token", "16 to 256", f"web.token={token}")
        for token in ("short", f"{SECRET} with a blank", f"ümläute-{SECRET}", SECRET * 12)
    ),
    *(
        ("web.host", way_out, f"web.host={host}")
        for host in ("0.0.0.0", "::", "10.1.2.3", "worker-1", "localhost.a.org", "127.0.0.1.nip.io")  # noqa: S104 - settings
        for way_out in ("web.token_file", "web.token", "web.open_monitoring", "127.0.0.1")
    ),
]


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_the_reason(case: tuple[str, ...]) -> None:
    setting, says, *assignments = case
    problems = problems_of(*assignments)
    assert {name.partition(".")[0] for name in problems} == {setting.partition(".")[0]}
    assert says in problems[setting].message
    assert SECRET not in str(problems) + str([str(problem) for problem in problems.values()])


@pytest.mark.parametrize(
    "assignments",
    [
        ["brokers=a:1"],
        ["brokers=127.0.0.1:9092,b.c:65535"],
        ["brokers=[::1]:9092"],
        ["batch.documents=1000", "batch.bundles=12"],
        *(
            [f"registry.url={url}", f"fields.format={value_format}"]
            for url in ("http://a:8081", "https://a/registry, https://b")
            for value_format in ("avro", "protobuf", "json-schema")
        ),
        ["web.host=0.0.0.0", f"web.token={SECRET}"],
        ["web.host=0.0.0.0", "web.token_file=/run/secrets/token"],
        ["web.host=0.0.0.0", "web.open_monitoring=true"],
        ["web.host=0.0.0.0", "web.enabled=false"],
        ["state_dir=/no/such/directory/yet"],
    ],
)
def test_what_fits_is_taken(assignments: list[str]) -> None:
    name, _, value = assignments[0].partition("=")
    assert str(attrgetter(name)(settings_of(*assignments))) == value


def test_the_longest_application_id_leaves_room_for_topics() -> None:
    assert settings_of(f"application_id={'a' * 200}").topics.changelog.endswith(".changelog")


def test_a_window_has_a_day_of_lateness_unless_set() -> None:
    windowed = settings_of("index.window=30d").index_profile()
    short = settings_of("index.window=90m", "index.lateness=0s").index_profile()
    assert (windowed.window, windowed.lateness) == (30 * DAY_MS, DAY_MS)
    assert (short.window, short.lateness) == (90 * 60_000, 0)
    assert settings_of().index_profile().window is None


def test_a_field_of_scopes_makes_the_index_scoped() -> None:
    assert settings_of("fields.scope=tenant").index_profile().scoped
    assert not settings_of().index_profile().scoped


def test_a_state_directory_in_which_the_applications_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "firstseen").write_text("")
    assert "directory" in problems_of(f"state_dir={tmp_path}")["state_dir"].message


def test_a_missing_extra_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "fastavro" else name)
    message = problems_of(*BOTH)["fields.format"].message
    assert "fastavro" in message
    assert "pip install 'firstseen[registry]'" in message


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost."]
)
def test_the_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    assert settings_of(f"web.host={host}").web.on_loopback


@pytest.mark.parametrize(
    ("name", "assignments"),
    [
        ("registry.password", (*BOTH, USER)),
        ("registry.oauth_client_secret", CLIENT),
        ("web.token", ()),
    ],
)
def test_a_secret_is_in_no_row_and_no_repr(name: str, assignments: tuple[str, ...]) -> None:
    table, _, field = name.partition(".")
    variable = f"FIRSTSEEN_{table}__{field}".upper()
    for loaded in (
        load(*assignments, environ={variable: SECRET}),
        load(*assignments, f"{name}={SECRET}"),
    ):
        of_table = getattr(loaded.settings, table)
        assert getattr(of_table, field) == SECRET
        assert SECRET not in repr([rows(loaded), text_rows(loaded), loaded.settings, of_table])


@pytest.mark.parametrize("url", [f"http://lu:{SECRET}@a", f"http://a,http://lu:{SECRET}@b"])
@pytest.mark.parametrize("assignments", [(), (AVRO,)])
def test_a_password_in_an_address_is_refused_and_not_quoted(
    url: str, assignments: tuple[str, ...]
) -> None:
    problem = problems_of(*assignments, f"registry.url={url}")["registry.url"]
    assert "(set)@" in problem.value
    assert SECRET not in str(problem)
