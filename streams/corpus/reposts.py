"""Reposts: the same article with another site's lines above and below it."""

from __future__ import annotations

import random

from streams.corpus.draws import chance, integer, shuffled
from streams.corpus.grammar import Pattern, entries, expand, parse
from streams.corpus.language import Language

TITLE_MARKS = {"zh": "[转] ", "en": "Repost: "}
"""What some sites put before the title of what they print again."""

_HEADERS = {
    "zh": """转载自{brand}[网|日报|晚报|新闻客户端];来源：{brand}[周刊|在线|融媒体]，作者：{person};
        【{brand}[快讯|头条|早知道]】;
        本文[首发于|原载于]公众号“{brand}[笔记|观察|小站]”，[已获授权|侵删];
        发布时间：{#2019-2024}-0{#1-9}-{#10-28}，浏览：{#100-98000}次;原标题：{title};
        [编者按|小编说]：[这篇文章值得一读|读者来稿|推荐阅读]。;
        [点击上方蓝字关注我们|建议收藏]↑↑↑""",
    "en": """Reposted from the {brand} [Gazette|Herald|Courier|Mercury]; By {person}, {brand}
        [News|Online|Wire]; Originally published on the {brand} [blog|daily mail list];
        Last updated {#1-28} [March|June|October] {#2019-2024}, 0{#6-9}:{#10-59};
        [SHARE|READ|PRINT] THIS ARTICLE - {#2-9} min read; First seen under the headline: {title};
        Editor's note: [this story has been shortened|a reader sent us this]""",
}
_FOOTERS = {
    "zh": """（责任编辑：{person}）;（编辑：{person}，校对：{person}）;
        免责声明：本文[仅代表作者观点|内容来自网络]，[与本站无关|不构成任何建议]，
        如有侵权请联系删除。;[长按|扫描]二维码，[关注|加入]“{brand}[读者群|小站]”;
        更多[内容|资讯]请[下载|打开]{brand}客户端;版权声明：未经[许可|授权]不得转载;
        [点赞|在看]{#12-4800}，[评论|留言]{#3-960}，分享{#2-700};
        [上一篇|下一篇|相关阅读]：{brand}的新动向;（记者{person}报道）""",
    "en": """Copyright {brand} Media. All rights reserved.; The views expressed are [those of the
        author|not those of this site].; Editing by {person}; Follow us on [all channels|social
        media] - subscribe to our newsletter; Tags: [local|news|opinion], {brand}; Did you spot a
        mistake? Write to {person}, readers' desk.; {#2-480} comments - {#5-900} shares;
        Additional reporting by {person}""",
}


def _patterns(blocks: dict[str, str]) -> dict[str, tuple[Pattern, ...]]:
    return {
        code: tuple(parse(entry) for entry in entries(block, " " if code == "en" else ""))
        for code, block in blocks.items()
    }


_HEADER_PATTERNS = _patterns(_HEADERS)
_FOOTER_PATTERNS = _patterns(_FOOTERS)


def repost(rng: random.Random, language: Language, title: str, text: str) -> str:
    """Print a text again between another site's header, footer or both: one to four lines."""

    def fill(slot: str) -> str:
        if slot == "title":
            return title
        return language.person(rng) if slot == "person" else language.brand(rng)

    def lines(patterns: tuple[Pattern, ...], most: int) -> list[str]:
        chosen = shuffled(rng, patterns)[: integer(rng, 1, most)]
        return [expand(pattern, rng, fill) for pattern in chosen]

    headed = chance(rng, 0.75)
    above = lines(_HEADER_PATTERNS[language.code], 2) if headed else []
    below = lines(_FOOTER_PATTERNS[language.code], 2) if not headed or chance(rng, 0.7) else []
    return "\n".join((*above, text, *below))
