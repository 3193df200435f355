"""What feeds carry besides articles: short posts, and posts without a word in them.

A short post is two clauses of everyday talk. Posts share phrases, as real ones do, yet no two of
them share both clauses unless one is a copy: each pair of clauses is used once.
"""

from __future__ import annotations

import random

from streams.corpus.draws import integer, pick
from streams.corpus.grammar import entries, expand, parse

_OPENERS_ZH = """地铁又晚点了;早上[六|七]点就醒了;终于下雨了;楼下的猫生了;快递丢了;加班到{#9-11}点;
晚霞是紫色的;咖啡洒键盘上了;邻居在练小号;第一次做红烧肉;体检报告出来了;今天降温{#5-12}度;
钥匙锁在屋里;电影散场了;驾照考过了;老家的桂花开了;手机只剩{#2-9}%的电;公交上有人唱戏;
头发剪短了;外卖少了一双筷子;周报写不出来;跑完{#3-15}公里;孩子换牙了;停电了;阳台的番茄红了;
奶奶学会视频了;下班路上看见彩虹;室友打呼噜;球队又输了;存折找到了;火锅店排到{#60-190}号;
旧书摊收摊了;蚊子专咬我;面试过了;耳机只响一边;妈妈寄来腊肉;楼道灯修好了;今晚月亮很低;
小区门口封路;减肥第{#3-40}天"""
_REMARKS_ZH = """只好走路回家;谁懂这种快乐;想吃冰的;先睡一觉再说;有没有人一起;眼泪快下来了;
拍了照没拍好;明天再战;我妈笑了半天;周末补上;突然很想家;就这样吧;晚饭有着落了;求推荐个师傅;
比去年早了一周;老板什么都没说;心情一下子亮了;大家都小心点;记一笔;从此再也不信预报;
送给隔壁老王了;窗户要关好;存个档;还挺好闻;下次换一家;原来也没那么难;等一个好消息;
感觉自己老了;不敢告诉我爸;评论区聊聊;又是被治愈的一天;准备搬去南边;手都冻僵了;给它起名叫豆包;
值得喝一杯;一个人也挺好;楼上还在装修;票根要留着;差点笑出声;希望别再涨价"""
_OPENERS_EN = """Bus late again; Soup is on; Cat on the roof; Lost my keys; First snow; Power cut;
Toast burnt; New boots; Train full; Exam done; Dentist at {#8-11}; Ran {#3-12} miles; Bike stolen;
Got the job; Rain all day; Moon is huge; Phone died; Baby slept; Wifi down; Pub quiz; Kettle broke;
Found {#5-50} pounds; Bread rose; Dog ate my hat; Car failed; Gran rang; Wasp in here; Sold out;
Flat tyre; Match off; Tea gone cold; Haircut done; Boiler fixed; Missed lunch; Fog at sea"""
_REMARKS_EN = """so I walked; send help; best day yet; typical Monday; who is in?; not my fault;
never again; crying now; more at six; told you so; pics later; I give up; what a view; my own fault;
any tips?; cake for all; back to bed; it was worth it; mum was right; try the jam; see you there;
bring a coat; nobody knows why; still shaking; the end; onwards; ask me later; feels like May;
small mercies; now we wait; call the vet; so proud; life goes on; two left; luck runs out"""
_EMOJI = (
    "😀😂🤣😊😍😎😭😡🤔🙄😴🥳👍👎👏🙏💪🔥🎉🌧🌈🌸🍀🍉🍜🍺"
    "🎂🎈🐱🐶🐼🦊🚀🚲🏀🎸📚💡💔💯🧧🌙🌊🍵🐢🦆🥟🎣🧩"
)
_SIGNS = "。！？…～—、，：；.!?,;:*#/=+&@%^|·"
_MOST_SIGNS = 6
_TRIES = 50


class ShortPosts:
    """Makes short posts, no two of which say the same."""

    def __init__(self, rng: random.Random) -> None:
        """Start with no post made."""
        self._rng = rng
        self._made: set[tuple[str, int, int]] = set()

    def post(self, code: str) -> str | None:
        """Make a post of 5 to 40 characters in a language, `zh` or `en`.

        Returns None where no new pair of clauses was found in a bounded number of draws.
        """
        openers, remarks, comma = _CLAUSES[code]
        for _ in range(_TRIES):
            first = integer(self._rng, 0, len(openers) - 1)
            second = integer(self._rng, 0, len(remarks) - 1)
            if (code, first, second) in self._made:
                continue
            self._made.add((code, first, second))
            opener = expand(openers[first], self._rng, str)
            return opener + pick(self._rng, comma) + expand(remarks[second], self._rng, str)
        return None


_CLAUSES = {
    "zh": (
        tuple(parse(entry) for entry in entries(_OPENERS_ZH)),
        tuple(parse(entry) for entry in entries(_REMARKS_ZH)),
        ("，", "！", "。", "，", "…"),
    ),
    "en": (
        tuple(parse(entry) for entry in entries(_OPENERS_EN, " ")),
        tuple(parse(entry) for entry in entries(_REMARKS_EN, " ")),
        (", ", "! ", ". ", ", ", "... "),
    ),
}


def emoji_post(rng: random.Random) -> str:
    """Make a post of one to six emoji."""
    return "".join(pick(rng, _EMOJI) for _ in range(integer(rng, 1, _MOST_SIGNS)))


def punctuation_post(rng: random.Random) -> str:
    """Make a post of one to six punctuation signs."""
    return "".join(pick(rng, _SIGNS) for _ in range(integer(rng, 1, _MOST_SIGNS)))


def empty_post(rng: random.Random) -> str:
    """Make a text without content: nothing, or white space."""
    return pick(rng, ("", "", " ", "\n", "\t \n", "\u3000"))
