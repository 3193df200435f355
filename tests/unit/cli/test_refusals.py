"""Invalid command lines: their exit codes, and the words of their messages.

Every command runs in the same directory with files of many kinds, and must not change it.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
from pathlib import Path

import pytest
import zstandard

from streams.cli.main import main
from streams.errors import ExitCode
from tests.rigs.brokers.broker import Broker
from tests.unit.cli.running import message_of, run_here

TEXT = "市交通局发布公告称，跨江大桥的加固工程将于下月初开始，货车绕行北环高速。"
MANY = b"".join(b'{"id": "%d", "text": "No. %d"}\n' % (n, n * 7919) for n in range(2_000))
FILES = {
    "f.txt": TEXT.encode(),
    "f.jsonl": json.dumps({"id": "a", "text": TEXT}).encode() + b"\n",
    "body.csv": b"id,body\n1,x\n",
    "body.jsonl": b'{"body": "x"}\n' * 3,
    "plain.jsonl": b"plain text\n",
    "packed.jsonl": gzip.compress(b"{}", mtime=0),
    "unpacked.jsonl.gz": b"{}\n",
    "f.zip": b"PK\x03\x04",
    "f.parquet": b"PAR1",
    "latin.txt": b"\x41\xe9\x41",
    "bad": b"\xff\xfe\x00",
    "long.txt": b"x" * 1025,
    "cut.gz": gzip.compress(TEXT.encode())[:-9],
    "cut.jsonl.gz": gzip.compress(MANY)[:8_000],
    "cut.jsonl.zst": zstandard.ZstdCompressor().compress(MANY)[:-20],
    "mixed/x.jsonl": b"{}",
    "page.md": b"no tables\n",
    "old.jsonl.partial": b'{"id": "a", "text": "x"}\n',
    "kept.idf": b"precious",
    "kept.jsonl": b'{"id": "a", "text": "x"}\n',
    "kept.duplicates.jsonl": b"precious",
}

WRONG_USAGE = [
    ("confg", "'config'"),
    ("config show --jsno", "--jsno"),
    ("config reference --update page.md", "--update"),
    ("topics create --partitions 0", "1<=x<=4096"),
    *((f"worker --processes {count}", "--processes") for count in ("0", "257", "many", "1.5")),
    ("dlq replay", "--all"),
    ("dlq replay --all 0@1", "--all"),
    ("produce absent.jsonl", "absent.jsonl"),
    ("produce - -", "twice"),
    ("produce empty", "folder empty"),
    ("produce mixed", "mixed/x.jsonl"),
    ("dedup missing.jsonl", "missing.jsonl"),
    ("dedup missing.jsonl --unique kept.jsonl --force", "cannot read missing.jsonl"),
    ("dedup empty", "folder"),
    ("dedup f.jsonl f.jsonl", "f.jsonl is named 2 times"),
    ("dedup mixed mixed/x.jsonl", "mixed/x.jsonl is named 2 times"),
    ("dedup - -", "twice"),
    ("dedup kept.jsonl", "--force"),
    ("dedup f.jsonl --unique f.jsonl --force", "f.jsonl"),
    ("dedup f.jsonl --unique link.jsonl --force", "link.jsonl"),
    ("dedup old.jsonl.partial --unique old.jsonl", "old.jsonl.partial is an input itself"),
    ("dedup f.jsonl --unique x --duplicates ./x", "--duplicates"),
    ("dedup f.jsonl --unique x.partial --duplicates x", "x.partial, another output"),
    ("dedup f.jsonl --unique no/such/place", "no/such"),
    ("dedup f.jsonl --unique .", "directory"),
    ("dedup f.jsonl --unique - --json", "--json"),
    ("dedup f.jsonl --abandon", "--state"),
    # Outputs that cannot be truncated after a crash:
    ("dedup f.jsonl --state s --unique u.gz", "--unique"),
    ("dedup f.jsonl --state s --unique -", "--unique"),
    ("dedup f.jsonl --state s --dead-letters /dev/null", "--dead-letters"),
    ("dedup body.csv", "'body'"),
    ("dedup body.jsonl", "missing_text"),
    ("dedup plain.jsonl", "fields.format=text"),
    ("dedup packed.jsonl", ".gz"),
    ("dedup unpacked.jsonl.gz", "unpacked.jsonl.gz"),
    ("dedup f.zip", "ZIP"),
    ("dedup f.parquet", "f.parquet"),
    ("dedup cut.jsonl.zst", "cut.jsonl.zst"),
    ("explain f.txt", "not 1"),
    ("explain f.txt f.txt f.txt", "not 3"),
    ("explain f.txt f.txt --text-a x", "not 2"),
    ("explain - -", "cannot both be standard input"),
    ("explain f.txt --text-b a\udcff", "--text-b is not UTF-8"),
    ("explain f.txt missing.txt", "missing.txt"),
    ("explain --documents f.jsonl a z", "'z'"),
    ("explain --documents missing.jsonl a z", "missing.jsonl"),
    ("fingerprint", "--text"),
    ("fingerprint f.txt --text x", "--text"),
    ("fingerprint --text x --jsonl", "--jsonl"),
    ("fingerprint --text a\udcff", "--text is not UTF-8"),
    ("check --text x --scope \udcff", "--scope is not UTF-8"),
    ("fingerprint missing.txt", "missing.txt"),
    ("fingerprint latin.txt", "latin.txt: not UTF-8 at byte 1"),
    ("fingerprint cut.gz", "cut.gz"),
    ("fingerprint long.txt --set max_record_bytes=1024", "max_record_bytes"),
    ("idf train f.jsonl -o kept.idf", "--force"),
    ("idf train f.jsonl -o 新闻.idf", "--name"),
    ("idf train f.jsonl -o f.jsonl --force", "f.jsonl is an input itself"),
    ("demo --set brokers=x:1", "--set brokers"),
    ("demo --input absent.jsonl", "absent.jsonl"),
    ("demo --input f.jsonl --seed 2", "--seed"),
    ("demo --state-dir .", "empty directory"),
    ("demo --documents 0", "--documents"),
]
WRONG_SETTINGS = [
    ("topics check --application-id 'a b'", "application_id", "'a b'", "--application-id"),
    ("worker --processes 4 --set web.port=65532", "web.port is 65532", "it must be 65531 or less"),
    ("demo --set batch.documents=0", "batch.documents"),
    ("demo --profile wider", "profile"),
    *(
        (f"fingerprint --text x --set index.{setting}={path}", f"index.{setting}", reason)
        for setting, reason_of_bad in (
            ("idf", "begins with"),
            ("user_dictionary", "not UTF-8"),
            ("stop_words", "not UTF-8"),
        )
        for path, reason in (
            ("gone", "No such file"),
            ("empty", "Is a directory"),
            ("bad", reason_of_bad),
        )
    ),
]
FAILURES = [
    ("dedup cut.jsonl.gz", "cut.jsonl.gz", "after line "),
    *([("dedup f.jsonl --unique /dev/full", "/dev/full")] if Path("/dev/full").exists() else []),
]
CASES = [
    *((ExitCode.USAGE, *case) for case in WRONG_USAGE),
    *((ExitCode.CONFIGURATION, *case) for case in WRONG_SETTINGS),
    *((ExitCode.RUNTIME, *case) for case in FAILURES),
]


@pytest.fixture
def directory(empty_directory: None, tmp_path: Path) -> Path:  # noqa: ARG001 - enters it
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "empty").mkdir()
    os.link(tmp_path / "f.jsonl", tmp_path / "link.jsonl")
    return tmp_path


def content_of(directory: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_messages_name_what_is_wrong(
    case: tuple[ExitCode, str, str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, command, *words = case
    before = content_of(directory)
    assert main(shlex.split(command)) == code
    out, message = capsys.readouterr()
    assert [word for word in words if word not in message] == [], message
    assert "Traceback" not in message
    # A demo prints its subject first, and then starts nothing.
    assert all(line.startswith("firstseen demo: ") for line in out.splitlines())
    assert content_of(directory) == before


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    "command",
    ["topics create --partitions 1", "topics check", "consume", "produce f.jsonl"],
)
def test_without_a_broker_one_line_says_so_in_time(command: str) -> None:
    run = run_here(*command.split(), "--broker", "127.0.0.1:1", "--timeout", "0.5")
    assert (run.returncode, run.stdout) == (ExitCode.BROKER_UNAVAILABLE, "")
    (line,) = run.stderr.splitlines()
    assert [part for part in ("127.0.0.1:1", "0.5 s", "refused") if part not in line] == []


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize("command", ["consume --until-end --topic raw", "produce f.jsonl", "load"])
def test_a_missing_topic_is_named_with_what_creates_it(kafka_broker: Broker, command: str) -> None:
    topic = kafka_broker.unique("missing")
    options = ("--broker", kafka_broker.bootstrap_servers, "--set", f"topics.raw={topic}")
    message = message_of(ExitCode.RUNTIME, *command.split(), *options)
    assert f"topic {topic}" in message
    assert "firstseen topics create" in message
