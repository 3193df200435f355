"""``mode``: which topics there are, and what they must be."""

from __future__ import annotations

from streams.settings.settings import Mode, Settings
from streams.topics.plans import topic_plans


def test_topics_of_both_modes() -> None:
    """Given a mode, then there are its output topics and no others, each with room for a record,
    any time, and a retention; dead letters have a topic of their own in both.
    """
    names = Settings().topics
    split, tag = Settings(), Settings(mode=Mode.TAG)

    assert split.output_topics == (names.unique, names.duplicates, names.dead_letters)
    assert tag.output_topics == (names.tagged, names.dead_letters)
    for settings in (split, tag):
        outputs = [p for p in topic_plans(settings, 6, 3) if p.output_retention_ms is not None]
        assert tuple(plan.name for plan in outputs) == settings.output_topics
        assert [plan.partitions for plan in outputs] == [*[6] * (len(outputs) - 1), 1]
        assert all(plan.times_of == names.raw and plan.min_message_bytes for plan in outputs)
    internal = [plan for plan in topic_plans(split, 6, 3) if plan.output_retention_ms is None]
    assert internal == [p for p in topic_plans(tag, 6, 3) if p.output_retention_ms is None]
