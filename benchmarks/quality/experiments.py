"""Repeats the experiments of two papers on real documents of five topics with edited copies.

Neither Wang and Wang (2019) nor the paper on improved weights published its documents. Here the
documents are one version of each article of a set of revisions. A topic has the articles whose
titles and texts have most of its words. Near-duplicates are edits of its articles
(``streams.evaluation.injected_edits``); the articles of all topics are the unrelated documents. All
copies are labelled with their article; copies that share less than half with it do not score.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

from benchmarks.command import say
from benchmarks.quality.contest import peer_qualities
from benchmarks.quality.sets import LabelledSet
from benchmarks.report import Figures
from simhash_core.documents import Document
from simhash_core.text.weighting import WEIGHTINGS
from streams.evaluation.dedup_pass import remembering
from streams.evaluation.evaluation import Labelled, Quality, evaluate
from streams.evaluation.injected_edits import edited_copies, labelled_copies
from streams.evaluation.labelled_files import documents_again, read_documents
from streams.settings.settings import IndexSettings, Settings

COPIES_A_TOPIC: Final = 500
SEED: Final = 1

TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "desktop": ("桌面", "Ubuntu", "GNOME", "KDE", "发行版", "Windows", "Fedora"),
    "programming": ("Python", "编程", "代码", "函数", "Java", "开发者", "Git"),
    "security": ("安全", "加密", "漏洞", "密码", "隐私", "SSH", "攻击", "防火墙"),
    "servers": ("服务器", "容器", "Docker", "Kubernetes", "云", "数据库", "MySQL"),
    "command line": ("命令", "bash", "shell", "终端", "文件系统", "脚本", "目录"),
}
_TITLE_WEIGHT: Final = 5
_HITS_MIN: Final = 3
_SHINGLES: Final = ("datasketch", 0.5)


class Method(NamedTuple):
    name: str
    settings: Settings


def methods(profile: str) -> list[Method]:
    """Return the profile to show, then the papers' weights at 64 bits, and plain SimHash."""

    def classic(name: str, weighting: str) -> Method:
        index = IndexSettings(weighting=weighting)
        return Method(f"{name}, 64 bits ≤ 3", Settings(profile="classic", index=index))

    rows = [Method(f"Firstseen {profile}", Settings(profile=profile))]
    named = (
        ("tfidf-length", "Wang and Wang: tf-idf × term length"),
        ("tfidf-roles", "improved weights: part of speech, length, cue terms, title"),
    )
    for weighting, name in named:
        if weighting in WEIGHTINGS:
            index = IndexSettings(weighting=weighting)
            in_profile = Method(f"{name}, in {profile}", Settings(profile=profile, index=index))
            rows += [classic(name, weighting), in_profile]
    return [*rows, classic("plain SimHash: tf", "tf")]


def experiments(
    labelled_set: LabelledSet, default_profile: str, *, with_peers: bool
) -> list[Figures]:
    """Run the experiments; raise ``MeasurementError`` if a peer fails."""
    articles = _articles(labelled_set)
    results: dict[str, list[Quality]] = defaultdict(list)
    fingerprinter_of = remembering()
    with tempfile.TemporaryDirectory(prefix="firstseen-") as directory:
        for number, (topic, members) in enumerate(_by_topic(articles).items()):
            labelled = _labelled(Path(directory), articles, members, SEED + number)
            for method in methods(default_profile):
                say(f"{topic}: {method.name} …")
                evaluated = evaluate(labelled, method.settings, fingerprinter_of)
                results[method.name].append(evaluated.quality)
            if with_peers:
                name, threshold = _SHINGLES
                say(f"{topic}: {name} …")
                quality = peer_qualities(labelled, name, [threshold])[threshold]
                results[f"shingles: {name} MinHash LSH ≥ {threshold:g}"].append(quality)
    return [_outcome(name, qualities, len(articles)) for name, qualities in results.items()]


def _outcome(method: str, qualities: Sequence[Quality], articles: int) -> Figures:
    """Return the figures of a method over all topics: the means and the lowest values."""
    precisions, recalls, f1s = (
        [getattr(quality, name) or 0.0 for quality in qualities]
        for name in ("precision", "recall", "f1")
    )
    return {
        "method": method,
        "topics": len(qualities),
        "near_duplicates": sum(quality.positives for quality in qualities),
        "unrelated": articles,
        "precision": fmean(precisions),
        "precision_least": min(precisions),
        "recall": fmean(recalls),
        "recall_least": min(recalls),
        "f1": fmean(f1s),
    }


def _articles(labelled_set: LabelledSet) -> list[Document]:
    """Return the first version of each article."""
    file = str(labelled_set.documents)
    groups = read_documents(file, Settings()).groups
    seen: set[str | None] = set()
    articles = []
    for group, document in zip(groups, documents_again(file, Settings()), strict=True):
        if group not in seen:
            seen.add(group)
            articles.append(document)
    return articles


def _by_topic(articles: Sequence[Document]) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {topic: [] for topic in TOPICS}
    for number, article in enumerate(articles):
        hits = {
            topic: sum(
                article.text.count(word) + _TITLE_WEIGHT * article.title.count(word)
                for word in words
            )
            for topic, words in TOPICS.items()
        }
        topic = max(hits, key=lambda name: hits[name])
        if hits[topic] >= _HITS_MIN:
            members[topic].append(number)
    return members


def _labelled(
    directory: Path, articles: Sequence[Document], members: Sequence[int], seed: int
) -> Labelled:
    """Return all articles, and copies of one topic's articles."""
    copies = -(-COPIES_A_TOPIC // len(members))
    texts = [articles[number].text for number in members]
    edited = edited_copies(texts, copies, seed)[: COPIES_A_TOPIC + copies]
    of_members = [copy._replace(of=members[copy.of]) for copy in edited]
    return labelled_copies(directory, articles, of_members, Settings())
