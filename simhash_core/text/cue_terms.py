"""Cue terms: words that announce what a text comes down to, or that it turns.

Part of the improved tf-idf weights (``weighting/tfidf_roles``): "综上所述", "总之", "但是", … The
paper names a lexicon and shows a few of its words; this list is ours, in both scripts, with the
English ones that play the same part. Words are as normalised texts have them.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "cues-1"

_SIMPLIFIED: Final = """
综上所述 综上 总之 总而言之 总的来说 总的来看 总体而言 简而言之 简言之 一言以蔽之 归根结底
归根到底 由此可见 可见 由此 因此 因而 所以 从而 于是 故而 结论 结果表明 研究表明 表明 但是 但
然而 不过 可是 却 反之 相反 尽管如此 虽然 尽管 事实上 实际上 其实 换言之 换句话说 也就是说 即
首先 其次 再次 最后 最终 第一 第二 第三 一方面 另一方面 此外 另外 值得注意 值得一提 重要的是
关键 关键在于 特别是 尤其 尤其是 主要 根本 根据 据悉 据报道
"""
_TRADITIONAL: Final = """
綜上所述 綜上 總之 總而言之 總的來說 總的來看 總體而言 簡而言之 簡言之 一言以蔽之 歸根結底
歸根到底 由此可見 可見 從而 於是 結論 結果表明 研究表明 不過 卻 儘管如此 雖然 儘管 事實上 實際上
其實 換言之 換句話說 也就是說 首先 其次 再次 最後 最終 此外 值得注意 重要的是 關鍵 關鍵在於
特別是 根據 據悉 據報導
"""
_ENGLISH: Final = """
therefore thus hence consequently conclusion conclude concluding summary overall finally
ultimately however but nevertheless nonetheless although though whereas contrary moreover
furthermore additionally importantly notably significantly especially namely first second third
lastly
"""

CUE_TERMS: Final = frozenset(f"{_SIMPLIFIED} {_TRADITIONAL} {_ENGLISH}".split())
