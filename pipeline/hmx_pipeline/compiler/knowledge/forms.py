"""English sentence patterns as data: regular expressions over clauses without contractions.

`compiler.knowledge.english` and `compiler.knowledge.rules` interpret them.
"""

import re
from typing import Final, NamedTuple

from hmx_pipeline.segments.lexicon import word_set

_BE: Final = "(?:am|is|are)"
_NOT: Final = "(?:(?P<not>not|never|no longer) )?"
_ADVERBS: Final = """
    now|also|currently|already|still|only|always|mainly|mostly|usually|really|generally|all|just|very|actually
    |absolutely|totally|much|almost|sadly|definitely|exclusively|internally|directly|primarily|typically|simply
"""
_ADVERB: Final = f"(?:(?:{_ADVERBS}) )*"


def _form(text: str) -> re.Pattern[str]:
    """Compile a pattern of several lines; line breaks and indentation are ignored."""
    text = text.replace("{WORDS}", _ADVERBS).replace("{BE}", _BE).replace("{NOT}", _NOT).replace("{ADVERB}", _ADVERB)
    return re.compile(re.sub(r"\n *", "", text), re.IGNORECASE)


class Verb(NamedTuple):
    predicate: str
    """The predicate as shown."""
    said: str
    plural: bool = False
    """True if several values may hold at once."""
    human: bool = False
    """True if only people can be the subject."""


VERBS: Final = (
    Verb("runs on", "(?:{BE} )?run(?:s|ning)? on(?: top of)?|{BE} powered by"),
    Verb("is written in", "{BE} (?:written|implemented|coded|programmed) in"),
    Verb(
        "is built with",
        "{BE} (?:built|made|developed|compiled|bundled|packaged) (?:with|on|using|on top of)|{BE} based on",
        plural=True,
    ),
    Verb("is hosted in", "{BE} (?:hosted|deployed|running|located|based|stored|kept|situated) (?:in|on|at|by|with|to)"),
    Verb("is defined in", "{BE} (?:defined|declared|configured|documented|described|specified) in"),
    Verb("is used for", "{BE} used (?:for|by|as)", plural=True),
    Verb("lives in", "lives? (?:in|at|on|under)|resides? (?:in|at|on)"),
    Verb("stores data in", "(?:stores?|keeps?) (?:(?:all )?(?:its|their|the|our) )?(?:data|state|records|files) in"),
    Verb("listens on", "(?:{BE} )?listen(?:s|ing)? on|(?:binds?|{BE} bound) to"),
    Verb("is owned by", "{BE} (?:owned|led|run|managed|headed) by"),
    Verb(
        "is maintained by",
        "{BE} (?:maintained|developed|supported|operated|reviewed|written|made|created) by",
        plural=True,
    ),
    Verb("owns", "owns?|maintains?|leads?|runs?(?= the)|manages?", plural=True),
    Verb(
        "is responsible for",
        "{BE} (?:responsible for|in charge of|the owner of)|takes care of|looks after",
        plural=True,
    ),
    Verb("depends on", "depends? (?:up)?on|relies on|rely on|requires?", plural=True),
    Verb(
        "talks to",
        "(?:talks?|connects?|writes|reads|publishes|sends [a-z]+|speaks) (?:to|from)|(?:talks?|connects?) with",
        plural=True,
    ),
    Verb("belongs to", "belongs? to|{BE} (?:a )?part of"),
    Verb("is called", "{BE} (?:called|named|nicknamed)|goes by"),
    Verb("uses", "uses?|{BE} using|works? with", plural=True),
    Verb("moved to", "(?:have |has )?(?:moved|migrated|switched|changed) (?:over )?to", plural=True),
    Verb("works at", "works? (?:at|for)|{BE} employed (?:at|by)", human=True),
    Verb("works as", "works? as", human=True),
    Verb("comes from", "comes? from|{BE} (?:originally )?from|grew up in|(?:{BE}|was) born in", human=True),
    Verb("speaks", "speaks?", plural=True, human=True),
    Verb("is allergic to", r"{BE} (?:\w+ )?allergic to|{BE} intolerant to", plural=True, human=True),
    Verb("is married to", "{BE} (?:married|engaged) to", human=True),
    Verb("studies", "stud(?:y|ies)", plural=True, human=True),
    Verb("supports", "supports", plural=True),
    Verb("is due", "{BE} (?:due|scheduled|planned|set)(?: (?:for|on|by|in|at))?"),
    Verb("points to", "points? to|{BE} aliased to"),
    Verb("stands for", "stands? for"),
    Verb("is in", "{BE} in(?= (?-i:[A-Z]))"),
)
RELATING: Final = word_set(
    """
    defined declared configured documented described specified used
    run runs running powered written implemented coded programmed built made developed compiled bundled packaged based
    hosted deployed located stored kept situated live lives reside resides store stores keep keeps listen listens
    listening bind binds bound owned led managed headed maintained supported operated reviewed created own owns maintain
    maintains lead leads manage manages responsible charge owner takes looks depend depends relies rely require requires
    talk talks connect connects writes reads publishes sends speaks belong belongs part called named nicknamed goes use
    uses using work works moved migrated switched changed employed come comes from grew born speak allergic intolerant
    married engaged study studies supports due scheduled planned set point points aliased stand stands in
    """
)
"""Every clause with one of the verbs has one of these words."""
RELATED: Final = _form(" (?:" + "|".join(f"(?P<v{i}>{verb.said})" for i, verb in enumerate(VERBS)) + r") (?=\S)")
"""The verb alone. The parts around it are matched separately, because one pattern would be slow on long clauses."""
FOR_WE: Final = _form(r"for (?P<purpose>[^,]{2,40}?),? (?P<rest>(?:we|I) (?:do not )?use \S.*)")
"""`for this we use that`"""
RELATES: Final = _form(
    r"(?P<subject>\S+(?: \S+){0,5}?)(?: (?P<do>do|does|did|can|will|have|has))?(?: (?P<not>not|never|no longer))?"
)
"""What stands before the verb, without adverbs."""
ADVERBS: Final = _form(r"(?: (?:{WORDS}))+(?= (?:do|does|did|can|will|have|has|not|never)\b|$)")
_BE_NOT: Final = _form(r"\b({BE}) {ADVERB}(not|no longer|never) {ADVERB}")


def negation_first(clause: str) -> str:
    """Move the negation to the front, as in other verbs: `is not written in` → `not is written in`."""
    return _BE_NOT.sub(r"\2 \1 ", clause)


POSSESSION: Final = _form(
    r"""
    (?P<subject>I|we|(?:my|our) \w+(?: \w+)?|[A-Z][\w-]+) (?P<do>(?:do|does) )?(?P<not>not )?
    (?:have|has|own|owns) (?:got )?
    (?P<object>(?:an?|one|two|three|four|five|six|\d+) (?:[\w-]+ ){0,2}?
    (?:dog|cat|pet|puppy|kitten|horse|rabbit|bird|fish|snake|turtle|hamster|son|daughter|child|kid|brother|sister|twin
    |wife|husband|partner|car|bike|motorcycle|boat|house|garden|allergy|tattoo|degree|phd|piano|guitar|violin|studio
    |shop|farm|cabin)(?:e?s|ren)?\b.*)
    """
)
LACKS: Final = _form(r"(?P<subject>we|our \S+|\S+) (?:do|does) not (?:have|support) (?:an? |any )?(?P<object>\S.*)")
KIND: Final = _form(
    r"(?P<subject>(?:an? )?\S+(?: \S+)?) (?:is|are) {ADVERB}(?P<not>not )?(?P<object>(?:an?|the only|the) \S+ ?.*)"
)
COPULA: Final = _form(r"(?P<subject>\S+(?: \S+){0,6}?) {BE} {ADVERB}(?P<not>not )?{ADVERB}(?P<object>\S.*)")
OURS: Final = _form(
    r"""
    (?P<object>\S+(?: [A-Z]\S+)?) {BE} {ADVERB}(?P<not>not )?{ADVERB}(?P<subject>(?:my|our) \S+(?: \S+){0,3})
    """
)
MOVED: Final = _form(
    r"""
    (?:we|I) (?:have )?(?P<not>not |never )?(?:moved|migrated|switched|changed|ported|converted)
    [ ](?P<what>\S+(?: \S+){0,3}?) (?:from \S+(?: \S+){0,2}? )?(?:over )?to (?P<object>\S.*)
    """
)
NEITHER: Final = _form(r"(?P<said>[^,;]+?) neither (?P<one>[^,;]+?),? nor (?P<other>[^,;]+)")
"""`we use neither this nor that`"""
PLACED: Final = _form(
    r"""
    \b(?:warehouse|office|headquarters|hq|store|shop|factory|plant|lab|laboratory|studio|branch|data ?cent(?:er|re)
    |server|cluster|database|team|company|home|house|flat|apartment|school|university|farm|bakery|restaurant|hotel
    |clinic)s?$
    """
)
"""Things whose place can be stated without a name."""
INSTEAD: Final = _form(
    r"""
    (?P<who>we|I) (?:(?:{WORDS}) )*(?:use|(?:are|am) using) (?P<new>\S+(?: \S+){0,2}?)(?: now)?
    [ ](?:instead of|rather than|in place of) (?P<old>(?!\w+ing )\S+(?: \S+){0,2}?)(?P<purpose> for \S.*)?
    """
)
REPLACED: Final = _form(
    r"""
    (?P<who>we) (?:have )?(?:(?:{WORDS}) )*(?:(?:(?P<moved>moved)|(?P<from>switched|migrated)) (?:over )?from|replaced)
    [ ](?P<old>\S+(?: \S+){0,2}?) (?(moved)(?:over )?to|(?(from)(?:over )?to|(?:with|by)))
    [ ](?P<new>\S+(?: \S+){0,2}?)(?P<purpose> for \S.*)?
    """
)
SETTING: Final = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(=|:)\s*([^\s=:,;?!\"'`]+)\s*$")
PREFERENCE: Final = _form(
    r"""
    (?P<kind>for [^,]+?,? )?(?P<subject>I|we|my \w+|\w+) (?P<would>would )?(?:do )?{NOT}(?P<usually>{ADVERB})
    (?:prefers?|rather (?:have|use|get|take|go with)
    |(?:likes?|loves?)(?= .* (?:better|more|rather) than))
    [ ](?:to (?:use|have|get) |using |having )?
    (?P<object>\S.*?)(?: (?:over|to|rather than|instead of|(?:better|more) than) (?P<other>\S.*))?
    """
)
LIKING: Final = _form(
    r"""
    (?P<subject>I|we|my \w+|\w+) (?P<do>do |does |can )?{NOT}{ADVERB}
    (?P<verb>loves?|likes?|enjoys?|adores?|hates?|dislikes?|detests?|stand|bear
    |am (?:a (?:big |huge )?fan of|into|fond of))
    [ ](?P<object>\S.*)
    """
)
FAVOURITE: Final = _form(
    r"""
    (?P<subject>(?:my|our)(?: [\w']+)?) (?:all-time )?favou?rite (?P<what>\w+(?: \w+)?) {BE} {ADVERB}
    (?P<not>not )?(?P<object>\S.*)
    """
)
AIM: Final = _form(
    r"""
    (?:(?P<whose>my|our) (?:\w+ )?(?:goal|aim|objective|target|dream|mission|ambition)(?: for [\w ]+?)? {BE}
    [ ]{NOT}(?:to )?
    |(?P<who>I|we) {BE} (?P<never>not )?{ADVERB}(?:aiming|(?P<vaguely>planning)) to )(?P<object>\S.*)
    """
)
DAY: Final = _form(
    r"""
    \b(?:today|tonight|tomorrow
    |(?:next|this|on|the coming) (?:week(?:end)?|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?)\b
    """
)
LASTING: Final = _form(
    r"""
    (?:a |an )?(?:vegetarian|vegan|pescatarian|diabetic|left-handed|right-handed|colou?r-?blind|deaf|blind|dyslexic
    |retired|married|single|divorced|widowed|lactose intolerant|gluten[- ]free|coeliac|celiac|asthmatic|adopted
    |pregnant|bilingual|transgender|non-?binary|gay|bisexual|muslim|christian|jewish|hindu|buddhist|atheist
    |self-employed|unemployed|\d{1,2} years old|an only child)\b
    """
)
"""Lasting properties of people."""
TRADE: Final = _form(
    r"""
    an? (?!(?:[\w-]+ ){0,3}member\b(?! of))(?:[\w-]+ ){0,3}?(?:\w+(?:er|or|ist|ian|ant|eer|man|woman|smith|wright)
    |nurse|student|chef|cook|coach|judge|pilot|nanny|vet|architect|intern|apprentice|parent|mother|father|mom|dad|widow|founder|ceo|cto|freelance|advocate
    |volunteer|artist|scientist)\b
    """
)
IDENTIFIER: Final = re.compile(r"\S*(?:[\w)][./_:(]\w|[a-z][A-Z]|\d)")
"""Text whose letter case must not change."""
NAMED: Final = re.compile(r"(?:an? |the |our |my )?(?:[A-Z][\w+#./-]*|[\w./:@+-]*[\d_/.@:+#-][\w./:@+-]*)", re.ASCII)
"""A name, a number or an identifier."""
NARROWED: Final = _form(r" (?:that|which|where|who|when|within) ")
"""A preference with one of these is conditional."""
PERSON: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?")
LASTS: Final = _form(
    r"""
    \b(?:name|birthday|email|phone|number|address|wife|husband|partner|boyfriend|girlfriend|fianc[eé]e?|son|daughter
    |kids?|child|children|mother|mom|mum|father|dad|parents|sister|brother|aunt|uncle|cousin|grandmother|grandma
    |grandfather|grandpa|friend|roommate|neighbou?r|dog|cat|pet|boss|manager|colleague|mentor|coach|teacher|doctor|lead
    |company|employer|team|job|major|school|university|hometown|city|country|timezone|time zone|language|stack|editor
    |shell|os|laptop|database|framework|cloud|provider|budget|deadline|username|handle|user|account|id|branch|repo
    |repository|server|port|region|domain|version|convention|style|policy|default|standard|role|title|diet|hobby
    |hobbies|passion|home|office)s?$
    """
)
"""Things that people have for long enough to remember."""
DETERMINER: Final = _form(
    r"^(?:all (?:of )?)?(?:the whole|the entire|the|an?|my|our|its|their|all(?: of)?|every|each)\s+"
)
OBJECT_END: Final = _form(
    r"""
    (?:,? (?:and (?:also|then|i|we|you|it|they|he|she|loves?|likes?|is|are|has|have|was|can|will|does)[ ]
    |or (?:something|so)|with (?:his|her|their|my|our|its) |over \w+$
    |to (?=\w)|that |which |where |when |after |before |as (?!\w+ \w+$)|for (?:now|example)|since |until |via |through
    |whose |in order |not )).*$
    """
)

ALWAYS: Final = _form(
    r"""
    (?:please )?(?:(?:be sure|make sure|remember|try|ensure|you (?:should|must|need to|have to)
    |i (?:always )?want you to
    |we|i need you to)(?: that)?(?: you| we)?(?: to)? )?(?:please )?(?P<how>always|never) (?:to )?(?P<what>\S.*)
    """
)
NEVER: Final = _form(
    r"""
    (?:please )?(?:you (?:should|must) )?(?:do not|not) ever (?P<what>\S.*)
    |(?:please )?do not (?P<also>\S.*?),? ever(?: again)?
    """
)
FROM_NOW: Final = _form(
    r"""
    (?:from (?:now|here) on(?: out)?|going forward|in (?:the )?future|as of (?:now|today)|henceforth),?[ ]
    (?:please |let us )?(?:you (?:must|should|need to|have to) )?(?:always )?(?P<not>do not |never )?(?P<what>\S.*)
    |(?P<not_before>do not |never )?(?P<before>\S.*?),? (?:from (?:now|here) on(?: out)?|going forward)
    """
)
EVERY_TIME: Final = _form(
    r"""
    (?P<when>(?:whenever|every time|each time|any time) (?:you|we) [^,]+|(?:before|after) (?:every|each|any) [^,]+),[ ]
    (?:please )?(?:also )?(?:always )?(?P<not>do not |never )?(?P<what>\S.*)
    """
)
POINTING: Final = _form(
    r"\b(?:this|that|these|those|it|them|here|there|same|(?:above|below)(?! (?:\S+ )?\S*\d)|him|her|instead|again)\b"
)
