"""When a memo is tried and when it rests: by what it saves of the text that it sees."""

from __future__ import annotations

from simhash_core.text.segmentation_cache import LONGEST_TRIAL, REST, SHORTEST_TRIAL, CacheTrials

BATCH = SHORTEST_TRIAL // 16


def used(trials: CacheTrials, characters: int, share: float) -> int:
    """Pass text of which the memo saves a share; return how many characters it worked on."""
    worked = 0
    for _ in range(characters // BATCH):
        worked += BATCH if trials.is_on else 0
        trials.count(BATCH, int(BATCH * share) if trials.is_on else 0)
    return worked


def test_a_memo_that_pays_stays_on() -> None:
    assert used(CacheTrials(), 50 * SHORTEST_TRIAL, 0.5) == 50 * SHORTEST_TRIAL


def test_a_memo_that_does_not_pay_works_on_every_17th_text() -> None:
    length = 40 * REST * LONGEST_TRIAL
    share = used(CacheTrials(), length, 0.25) / length
    assert 0.9 / (REST + 1) < share < 1.1 / (REST + 1)


def test_what_counts_is_the_memo_once_it_is_filled() -> None:
    trials = CacheTrials()
    used(trials, SHORTEST_TRIAL // 2, 0.0)
    used(trials, SHORTEST_TRIAL // 2, 0.5)
    assert trials.is_on


def test_trials_grow_until_one_pays() -> None:
    trials = CacheTrials()
    for doubling in range(3):
        trial = SHORTEST_TRIAL << doubling
        assert used(trials, trial, 0.0) == trial
        assert used(trials, REST * trial, 0.0) == 0
    assert used(trials, 9 * SHORTEST_TRIAL, 0.9) == 9 * SHORTEST_TRIAL
    assert used(trials, 10 * SHORTEST_TRIAL, 0.0) == SHORTEST_TRIAL
