"""Chinese names of people, places and companies, made of characters: none is meant to be real."""

from __future__ import annotations

import random

from streams.corpus.draws import chance, pick, pick_skewed

_SURNAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾"
    "丁魏薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤"
)
_GIVEN = (
    "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华玉兰建国志文海燕晓红梅春生林峰宇晨欣怡浩然"
    "子涵思雨佳琪俊凯婷雪云飞龙凤祥安宁诚信义德仁和谦恒毅坚立新振兴荣昌盛永庆福贵喜乐清源泽润澜"
    "岚松柏竹菊荷莲桐枫楠榕樱舟帆航远征程启光辉耀灿烁星辰月夜溪川山石岩磐舒朗乔穗禾苗麦田"
)
_PLACE_FIRST = "岚澜栖汀霁沅珑蔚棠茗樨筠浔苕潆霭嵊砚箬葭榆梓枫桕菱荻薇蓼鹭雁鹊麂獐鲤鳜晴朔晦曛暮曦"
_PLACE_SECOND = "川浦岭泽原桥湾坪溪渡塬堰埠墟荡圩屿岬峪垭塘沟滩洲矶冈坞淀"
_PLACE_RANKS = ("县", "市", "区", "镇", "新区", "乡")
_BRAND_FIRST = "星禾朗拓澄越砚屿恒锦曜翎沛懿骏鼎瀚铭泓屹煦晟琅璟昱翰彦弘"
_BRAND_SECOND = "辰图维岳纳合诺凡驰晖宸源达泰瑞川途盟创景讯芯谷帆策域擎睿"


def person(rng: random.Random) -> str:
    """Make a person's name of two or three characters."""
    name = pick_skewed(rng, _SURNAMES) + pick(rng, _GIVEN)
    return name + pick(rng, _GIVEN) if chance(rng, 0.8) else name


def place(rng: random.Random) -> str:
    """Make a place name with its rank, such as a county's."""
    return pick(rng, _PLACE_FIRST) + pick(rng, _PLACE_SECOND) + pick_skewed(rng, _PLACE_RANKS)


def brand(rng: random.Random) -> str:
    """Make a trade name, to which the line of business is added."""
    return pick(rng, _BRAND_FIRST) + pick(rng, _BRAND_SECOND)
