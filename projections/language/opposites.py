"""Words that turn a lesson round: two texts that differ in them do not say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

_PAIRS = """
left right, before after, above below, over under, up down, upper lower, top bottom, front back,
front rear, forward backward, forwards backwards, ahead behind, inside outside, inner outer,
in out, open closed, open close, opened closed, opening closing, opens closes, on off,
enable disable, enabled disabled, wet dry, hot cold, warm cool, warm cold, hot cool,
away towards, away toward, visible invisible, present absent, high low, higher lower,
highest lowest, fast slow, faster slower, fastest slowest, quickly slowly, increase decrease,
increases decreases, increased decreased, increasing decreasing, raise lower, more less, more fewer,
most least, max min, maximum minimum, large small, larger smaller, big small, bigger smaller,
long short, longer shorter, tall short, wide narrow, thick thin, heavy light, heavier lighter,
hard soft, rigid flexible, rough smooth, sharp blunt, full empty, loaded empty, loaded unloaded,
start stop, starts stops, started stopped, push pull, pushes pulls, pushed pulled,
grasp release, grip release, lock unlock, locked unlocked, load unload, attach detach,
succeed fail, succeeds fails, succeeded failed, success failure, pass fail, safe unsafe,
safe dangerous, stable unstable, clockwise counterclockwise, clockwise anticlockwise,
first last, early late, earlier later, indoor outdoor, indoors outdoors, day night, bright dark,
clean dirty, north south, east west, horizontal vertical, horizontally vertically,
simulation real, sim real, better worse, best worst, good bad, near far, nearer farther,
allow forbid, allowed forbidden, with without, positive negative, true false,
左 右, 左侧 右侧, 左边 右边, 左臂 右臂, 左手 右手, 左转 右转, 之前 之后, 前 后, 上 下, 上方 下方,
上面 下面, 前方 后方, 前面 后面, 内 外, 里 外, 内部 外部, 室内 室外, 打开 关闭, 开 关, 湿 干,
湿滑 干燥, 潮湿 干燥, 热 冷, 高 低, 高温 低温, 快 慢, 增加 减少, 增大 减小, 提高 降低, 大 小,
长 短, 重 轻, 硬 软, 满 空, 开始 停止, 推 拉, 抓取 释放, 成功 失败, 安全 危险, 顺时针 逆时针,
最大 最小, 最高 最低, 白天 夜间, 白天 晚上, 仿真 真实, 好 坏, 远 近
"""

_GROUPS = """
red orange yellow green blue purple pink brown black white grey gray silver gold
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
north south east west
breakfast lunch dinner
a b c d e f g h i j k l m n o p q r s t u v w x y z
红色 橙色 黄色 绿色 蓝色 紫色 粉色 棕色 黑色 白色 灰色
周一 周二 周三 周四 周五 周六 周日
"""
"""Words of which one stands where another cannot: a red cup is no blue one, port A not port B."""

_OPPOSITES: dict[str, frozenset[str]] = {}
_pairs = [pair.split() for pair in _PAIRS.split(",")]
_pairs += [list(pair) for line in _GROUPS.split("\n") for pair in combinations(line.split(), 2)]
for _one, _other in _pairs:
    _OPPOSITES[_one] = _OPPOSITES.get(_one, frozenset()) | {_other}
    _OPPOSITES[_other] = _OPPOSITES.get(_other, frozenset()) | {_one}

_ORDERING_WORDS = """
than before after then over instead rather versus vs causes caused
que antes despues 比 优于 先 再 之前 之后 非 不是 导致
"""
_ORDERING = frozenset(_ORDERING_WORDS.split())


def opposites(word: str) -> frozenset[str]:
    return _OPPOSITES.get(word, frozenset())


def opposed(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether one token set says the opposite of the other somewhere: `left` where the other has
    `right`. A word that both have decides nothing."""
    only_b = b - a
    return any(not only_b.isdisjoint(opposites(word)) for word in a - b)


def swapped(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two texts, as tokens in order, say the same words the other way round: `A is heavier
    than B` and `B is heavier than A`. Something must have gone from the left of such a word to its
    right, and something else from its right to its left; a clause that only moved does not count.
    """
    there = {word: (left, right) for word, left, right in sides(b)}
    for word, left_a, right_a in sides(a):
        left_b, right_b = there.get(word, (frozenset(), frozenset()))
        if not left_a.isdisjoint(right_b) and not right_a.isdisjoint(left_b):
            return True
    return False


def sides(tokens: Sequence[str]) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
    """For each word that orders what it stands between, the tokens that are only left, and those
    that are only right of its first place."""
    for word in _ORDERING.intersection(tokens):
        place = tokens.index(word)
        left, right = frozenset(tokens[:place]), frozenset(tokens[place + 1 :])
        yield word, left - right, right - left
