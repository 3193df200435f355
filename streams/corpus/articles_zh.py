"""The Chinese language of the demo stream, put together from its lists."""

from __future__ import annotations

from streams.corpus import names_zh, sentences_zh
from streams.corpus.grammar import Pattern, entries, parse
from streams.corpus.language import Language
from streams.corpus.topics_zh_economy import BANKING, ENERGY, FARMING, TECHNOLOGY
from streams.corpus.topics_zh_leisure import FOOD, MUSEUMS, NATURE, SPORT
from streams.corpus.topics_zh_society import HOSPITALS, HOUSING, SCHOOLS, TRANSIT

_PHRASES = {
    "date": """{#1-12}月{#1-28}日;{#1-12}月[初|中旬|底];上[周|星期][一|二|三|四|五|六];上个月;
        本月初;前不久;[前天|昨天][上午|下午|傍晚];去年[春天|夏天|秋天|冬天];[国庆|端午|中秋|元宵]前后;
        入[夏|秋|冬]之后;[大寒|惊蛰|芒种|处暑|霜降|冬至]那天""",
    "year": "{#1953-2022}",
    "span": """{#2-11}个月;[一|两|三|四|五]年;半年;{#10-95}天;[两|三]个季度;[六|八|十二]周;
        一年[零两个月|半];整整一个[春天|夏天|秋天|冬天]""",
    "money": """{#12-980}万元;{#1.1-38.9}亿元;{#3-95}万元;[近|约|超过]{#2-90}百万元;
        [三|五|八][百|千]万元""",
}


def _parsed(block: str) -> tuple[Pattern, ...]:
    return tuple(parse(entry) for entry in entries(block))


def _unchanged(action: str) -> str:
    return action


ZH = Language(
    code="zh",
    topics=(
        SCHOOLS,
        FARMING,
        SPORT,
        HOSPITALS,
        BANKING,
        MUSEUMS,
        HOUSING,
        TECHNOLOGY,
        FOOD,
        TRANSIT,
        ENERGY,
        NATURE,
    ),
    commonplaces={},
    voices=({section: _parsed(block) for section, block in sentences_zh.SENTENCES.items()},),
    titles=_parsed(sentences_zh.TITLES),
    phrases={slot: _parsed(block) for slot, block in _PHRASES.items()},
    actions={"action": _unchanged},
    person=names_zh.person,
    place=names_zh.place,
    brand=names_zh.brand,
    space="",
    stop="。",
    closed=("。", "！", "？", "”"),
    shortest=150,
    longest=1500,
    measure=len,
)
"""Chinese."""
