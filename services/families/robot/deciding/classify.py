"""What kind of knowledge a sentence is, told from its words."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from mnemolog.projections.language.characters import clean

FALLBACK = "code"

MAX_CHARACTERS = 2_000


class Classification(msgspec.Struct, frozen=True):
    """`tags` are all categories that the text shows signs of, the first of them its `category`."""

    category: str
    tags: tuple[str, ...]


# Where a sentence or clause begins: "Lesson: always …" begins one too, ", always" does not.
_START = r"(?:^|[.!?;:。\n] ?)[\"'“(\[*-]{0,3} ?"
_LABEL_START = r"^[\"'“(\[*#-]{0,4} ?"
_LABEL_END = r"[\])*]{0,3} ?(?:[:\])]|—|– |- )"

# Somebody who writes the kind in front means it, whatever words follow.
_LABELS = (
    ("postmortem", r"lessons?(?: learn(?:ed|t))?|post-?mortem|retrospective|(?:经验)?教训|复盘"),
    ("gotcha", r"gotcha|pitfall|trap|caveat|footgun|careful|陷阱|踩坑|注意坑|坑|易错点?"),
    ("constraint", r"constraint|rule|safety rule|hard limit|约束|规则|红线|硬性要求"),
    ("preference", r"preference|recommendation|偏好|建议|推荐"),
    ("worldview", r"principle|best practice|原则|最佳(?:实践|做法)"),
    ("tradeoff", r"trade-?offs?|pros and cons|权衡|取舍|优缺点"),
    ("root_cause", r"root[ -]cause|cause|(?:根本)?原因|根因"),
    ("decision", r"decision|决定|决策"),
    ("pattern", r"(?:recurring )?pattern|规律"),
    ("observation", r"observations?|finding|发现|观察"),
)

_QUALITY = (
    "(?:速度|精度|准确[度性率]|成本|延迟|时延|吞吐量?|安全性?|效率|功耗|能耗|质量|性能|内存|稳定性|"
    "灵活性|复杂度|鲁棒性|柔顺性|刚度|带宽|算力|分辨率|帧率|实时性|可靠性|召回率?|续航|负载)"
)

# In order: the first that fits is the category. A kind that says what the text is for (a lesson, a
# trap, a rule) comes before one that says what it is about; a kind that appears twice is stronger
# where it leads the sentence: "Chose X because …" is a decision, "Failed because we chose X" none.
_SIGNS = (
    (
        "postmortem",
        r"\blessons?\b|\bpost-?mortems?\b|\bin hindsight\b|\blearn(?:ed|t) the hard way\b"
        r"|教训|复盘|事后(?:总结|分析)",
    ),
    (
        "gotcha",
        r"\bgotchas?\b|\bpitfalls?\b|\btraps?\b|\bfootguns?\b|\bwatch out\b|\bbeware\b"
        r"|\beasy to (?:miss|overlook|forget)\b"
        r"|陷阱|踩(?:过|了|到)?(?:的)?坑|坑点|有(?:个|一个)?坑|大坑|避坑|容易(?:忽略|忽视|遗漏)|[小当]心",
    ),
    (
        "constraint",
        r"\bmust\b(?! have (?:been|\w+ed)\b)|\bnever\b|\bforbidden\b|\bprohibited\b|\bmandatory\b"
        r"|\b(?:not|n't) (?:be )?(?:allowed|permitted)\b|\b(?:is|are) required\b|\bat all times\b"
        r"|\b(?:should|shall) (?:always|not)\b|\bshouldn['’]t\b|\bunder no circumstances\b"
        r"|\b(?:make|be) sure to\b"
        rf"|{_START}(?:please )?(?:always|do not|don['’]t)\b"
        r"|必须|必需|禁止|严禁|强制|[绝决]不|永远不|绝对不|(?:一定|千万)(?:要|不要|别)|务必|切勿|请勿|切记"
        r"|不(?:允许|许)|只能|不能(?:超过|低于|高于|大于|小于)"
        r"|(?<![恨怪舍巴记])不得(?![不已])"
        r"|不可(?![用见靠达避逆控知预读写信行变微否兼])"
        rf"|{_START}(?:请)?(?:不要|别(?![的人处名]))|,不要",
    ),
    (
        "preference",
        r"\bprefer(?:s|red|ably|ence|ences|ring)?\b|\brecommend(?:s|ed|ation|ations)?\b"
        r"|\bfavou?r(?:s|ed)? [^.;]{1,40}? over\b|\b(?:best|better) to\b|\bideally\b"
        r"|优先(?![级权队])|偏好|偏向于|推荐|建议|倾向于|首选|尽量|宁可"
        r"|最好(?=[先用使在把将从选不别要保])",
    ),
    (
        "worldview",
        r"\b(?:better|worse|faster|slower|safer|stronger|weaker|simpler|easier|cheaper|smoother"
        r"|cleaner|stabler|smarter"
        r"|(?:more|less) (?:reliable|accurate|robust|stable|efficient|precise|effective|consistent"
        r"|important|useful|practical|predictable|flexible|expensive|durable|forgiving|dependable"
        r"|repeatable|responsive|maintainable|compliant))"
        r" than\b(?! (?:expected|usual|normal|planned|before|specified|\d))"
        r"|\b(?:superior|inferior) to\b"
        r"|\boutperform(?:s|ed)?\b|\bfrom now on\b|\bgoing forward\b|\bbest practices?\b"
        r"|\bthe (?:right|best|only sane) (?:way|approach|tool|choice)\b"
        r"|(?<![对相占空分价之率同环])比(?![例如较赛特值重方对])[^,。;:!?]{1,20}?"
        r"(?:好|快|强|稳|优|可靠|靠谱|安全|准确|精确|省[电时力]|更[^,。;:!?高低大小多少长短])"
        r"|[优劣]于|最佳(?:做法|实践|方[式案法])|最好的(?:做法|方[式案法])|以后都|从现在(?:起|开始)|从今以后|今后",
    ),
    (
        "tradeoff",
        r"\btrade-? ?offs?\b|\btrading\b[^.;]{1,40}\bfor\b|\bpros and cons\b|\bversus\b"
        r"|\bvs\b(?! ?(?:code|20\d\d))|\b(?:dis)?advantages?\b|\bdownsides?\b"
        r"|\bat the (?:cost|expense) of\b|\bbalanc(?:e|ing) between\b"
        r"|权衡|取舍|折[衷中]|优缺点|优劣|利弊|以[^,。;]{1,10}为代价|[与和跟][^,。;:]{1,20}对比|相比"
        rf"|{_QUALITY}[与和跟]{_QUALITY}(?= ?(?::|之间|不可兼得|难以兼[顾得]))",
    ),
    (
        "decision",
        rf"{_START}(?:(?:finally|so|then|we|i|the team|have|has|ultimately),? ){{0,3}}"
        r"(?:chose|decided|opted|picked|selected|switched to|settled on|went with)\b"
        rf"|{_START}(?:我们|最终|最后|团队|因此|所以|已经?){{0,3}}(?:决定(?![性系于])|选择(?![性器题])|采用|选用|改用|改为)",
    ),
    (
        "root_cause",
        r"\bcaus(?:ed|es|ing)\b|\bbecause\b|\broot[ -]causes?\b|\bdue to\b|\bculprit\b"
        r"|\b(?:issue|problem|bug|failure|reason|error) (?:was|is that|turned out)\b"
        r"|\bthe reason (?:is|for|why)\b|\b(?:stem|result)(?:s|ed|med)? (?:from|in)\b"
        r"|\btraced (?:back )?to\b|\battribut(?:ed|able) to\b|\bas a result of\b"
        r"|原因|根因|起因|导致|由于|引起|因为|造成|引发|源于|归咎",
    ),
    (
        "decision",
        r"\bchose(?:n)?\b|\bdecided?\b|\bdecision\b|\binstead of\b|\brather than\b|\bwe should\b"
        r"|\bopted (?:for|to)\b|\bsettled on\b|\bwent with\b|\bswitched (?:to|from)\b"
        r"|选择(?![性器题])|(?<!由)决定(?![性系于])|采用|选用|选定|改为|改用|而非|而不是|放弃了",
    ),
    (
        "observation",
        rf"{_START}(?:(?:we|i|also|just|today|yesterday),? ){{0,2}}"
        r"(?:found(?! in\b)|discovered|noticed|observed|measured|saw)\b"
        rf"|{_START}(?:我们|今天|测试中|实验中|现场)?(?:发现(?!服务|机制|协议)|观察到|注意到|实测|测得)",
    ),
    (
        "pattern",
        r"\b(?:every|each) time\b|\bwhenever\b|\brecurr?(?:s|ing|ent|ence)?\b|\brepeatedly\b"
        r"|\bconsistently\b|\btends? to\b|\busually\b|\boften\b|\btypically\b|\bmost of the time\b"
        r"|\bkeeps? \w+ing\b"
        r"|(?<=[a-z0-9%] )(?<!must )(?<!should )(?<!shall )always\b"
        r"|每当|每次|每逢|每到|总[是会]|规律|反复|经常|往往|通常|屡次|一旦[^。;]{1,20}就|越[^。;]{1,8}越",
    ),
    (
        "observation",
        r"\bfound (?:that|out|to)\b|\bdiscovered\b|\bnoticed\b|\bobserved\b|\bturn(?:s|ed) out\b"
        r"|\blearn(?:ed|t) that\b|\bwe saw\b|\bseems? (?:to|that|like)\b|\bappears? (?:to|that)\b"
        r"|(?<!服务)(?<!节点)(?<!设备)(?<!自动)发现(?!服务|机制|协议)|观察到|观测到|注意到|察觉|看到|实测|测得"
        r"|(?:测试|实验|结果|数据)(?:表明|显示)",
    ),
)


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """When the first text is classified: compiling takes longer than all else in this module, and
    whoever only reads does not need it."""
    labels = ((category, f"{_LABEL_START}(?:{names}){_LABEL_END}") for category, names in _LABELS)
    # ASCII, so that a word has its boundary beside a Chinese character too: 速度vs精度.
    return tuple(
        (category, re.compile(pattern, re.IGNORECASE | re.ASCII))
        for category, pattern in (*labels, *_SIGNS)
    )


def classify(text: str) -> Classification:
    """The category of a text and the tags that come with it, by ordered rules.

    Reads the first 2,000 characters. A text without any sign is "code": a technical note.
    """
    cleaned = clean(text[:MAX_CHARACTERS])
    hits = dict.fromkeys(category for category, rule in _rules() if rule.search(cleaned))
    tags = tuple(hits) or (FALLBACK,)
    return Classification(tags[0], tags)
