"""English names of people, places and companies, put together: none is meant to be real."""

from __future__ import annotations

import random

from streams.corpus.draws import chance, pick, pick_skewed


def _words(block: str) -> tuple[str, ...]:
    return tuple(block.split())


_GIVEN = _words(
    """Anna James Mary Daniel Ruth Peter Alice Samuel Grace Henry Leila Omar Priya Tomas Ingrid
    Marcus Nadia Colin Yusuf Elena Oscar Fiona Kwame Hannah Rafael Beth Callum Mei Arthur
    Zara Leonard Joan Martha Idris Clara Victor Noor Edmund Sofia Gareth Lucy Pavel Amara
    Duncan Iris Hugo Wendy Malik Tessa Bruno Agnes Rowan Layla Stephen Greta Felix Moira
    Anton Delia Joseph"""
)
_SURNAMES = _words(
    """Holt Marsh Whitcombe Okafor Bell Sandhu Carver Lindqvist Moss Prior Ashworth Kowalski Dunne
    Frost Tanner Osei Varga Quill Redfern Barlow Haddad Pike Sorensen Lamb Thackeray Novak
    Crane Ferreira Wick Gilchrist Banerjee Stone Larkin Abara Penhale Rook Castellan
    Drummond Ivers Mehta Sparrow Tilney Vance Wexford Yardley Zeller Birch Coombes Draper
    Elphick Fairburn Garrity Hollis Inglis Jessop Keane Loxley Mundy Nettle Orchard Pascoe
    Quigley Rusk Sefton Thorne Underhill Vickery"""
)
_PLACE_FIRST = _words(
    """Ash Bram Clee Dun Elm Fern Gar Hather Ivel Kel Lang Mar Nether Orm Pen Quern Raven Sal Thorn
    Ul Wen Yar Alder Birk Cold Dray Eden Farn Gold Hazel Inch Kings Lin Mill Norr Oak Pil
    Red Stan Tarn"""
)
_PLACE_SECOND = _words(
    """combe ford wick bury mere thorpe stead worth ham holme hurst leigh ness pool sby ton well
    cote dale garth haven mouth bridge stowe wold"""
)
_BRAND_FIRST = _words(
    """Bright Blue Copper North Iron Quarter Silver Over Good Lantern Tall Summer Black Clear Salt
    Wild Kestrel Harbour Granite Clover"""
)
_BRAND_SECOND = _words(
    "mere line gate field wharf leaf stone path crest point yard wing moor mark water"
)


def person(rng: random.Random) -> str:
    """Make a person's name: given name and surname."""
    return f"{pick(rng, _GIVEN)} {pick(rng, _SURNAMES)}"


def place(rng: random.Random) -> str:
    """Make the name of a town."""
    return pick(rng, _PLACE_FIRST) + pick_skewed(rng, _PLACE_SECOND)


def brand(rng: random.Random) -> str:
    """Make a trade name, to which the line of business is added."""
    if chance(rng, 0.5):
        return f"{pick(rng, _SURNAMES)} & {pick(rng, _SURNAMES)}"
    return pick(rng, _BRAND_FIRST) + pick(rng, _BRAND_SECOND)
