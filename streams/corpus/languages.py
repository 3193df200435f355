"""The languages of the demo stream by code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from streams.corpus.articles_en import EN
from streams.corpus.articles_zh import ZH
from streams.corpus.language import Language

LANGUAGES: Mapping[str, Language] = MappingProxyType({"zh": ZH, "en": EN})
"""Chinese and English."""
