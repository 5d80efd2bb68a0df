"""English word lists for the statement parser. No tenant's words."""

from typing import Final

from hmx_pipeline.segments.lexicon import word_set

ANYTHING: Final = word_set(
    """
    it this that these those there here he she they you him her them his its their your one ones everything
    something nothing anything someone nobody everyone anybody everybody which who what each all some many most few
    both others another mine yours ours thing things stuff people guys folks us me
    """
)
"""Words that can stand for anything; claims about them are dropped."""

NO_SUBJECT: Final = word_set(
    """
    is are am was were be been being now already next better finally my our to and or but because if when that which
    who not do does did can could will would should shall may might must has have had so then than with without for
    from by at as like into about after before until while just only even also please let lets how why where what
    there it this i you we they he she don't isn't n't doesn't no yes any never always
    """
)
"""Words that occur in no plain subject."""

VAGUE: Final = word_set(
    """
    traceback tracebacks script scripts existing later reproduction issue issues problem problems question questions
    point thing flight flights trip refund occurrence occurrences order ticket booking reservation item payment
    transaction number code idea error errors bug bugs reason reasons part parts result results first second third
    last next previous change changes fix option options answer output difference rest other only same test tests
    build page message messages line lines plan approach case cases way example note thought thoughts guess worry
    concern feedback comment comments suggestion summary conclusion task todo items solution cause root fact truth
    bad mistake fault turn status state current new old above following latter former pr diff commit patch review
    log logs trace stack exception warning failure function method step steps request response prompt conversation
    context session analysis file files input value values fun best worst hardest key main intent intention
    understanding expectation assumption experience impression opinion hope fear
    """
)
"""Words whose referent changes from sentence to sentence."""

PASSING: Final = word_set(
    """
    must broken failing red green done ready wrong right correct incorrect fine good bad great ok okay up down gone
    empty blank slow fast stuck missing late early open closed happy sad tired busy sick clear unclear possible
    impossible available unavailable back here there away sure sorry glad afraid curious interested excited able
    about going trying looking working running getting seeing having doing using thinking talking asking wondering
    new old same different similar better worse best worst true false important easy hard simple complex clean dirty
    safe full over out off on in actually really quite very too so pretty just still also only that what how why
    when where whether because to like not no a bit amazing awesome nice cool perfect lovely beautiful wonderful
    interesting weird strange funny crazy proud grateful thankful nervous scared worried fun tough nothing something
    everything it this these those him her them well always never growing coming starting almost nearly around soon
    now then passing messed
    """
)
"""Words for passing states, and words that begin another kind of sentence."""

NO_VERB: Final = word_set(
    """
    been seen had heard used knew known mind ever a an the my your his her their our its mine such so too more less
    about there here i you we he she they it this that these those in on at of and or but because better worse good
    bad great fun nice sure happy sad able going trying looking gone done said was were is are am not only just
    really quite possible easy hard love loved loves wanted thought wondered enjoy enjoyed hate forget liked like
    felt feel tried works worked fails failed happens happened again up down out got get gets seem seems
    """
)
"""Words after `always` and `never` that begin no instruction."""

ORDINARY: Final = word_set(
    """
    user users system code app application program server client data everything agent model tool script command
    class module library package test build file window button customer people man woman guy team company thing work
    job time day week month year way home house room place world life water money list table key git then else today
    tomorrow yesterday currently maybe ok yes no thanks please sorry hi hello hey
    """
)
"""Words that are no names when they stand alone without an article."""

HANGING: Final = word_set(
    """
    for to in on with by at from of as the a an same is are was not and or be have been just only so too very more
    less when where how my our your his her their because while until after before etc
    """
)
"""First words of what is no object."""

ASKING: Final = word_set(
    """
    who whom whose what which why when where how does did is are am was were can could should would will shall has
    any or wdyt thoughts
    """
)
"""First words of questions, with or without a question mark."""

SUPPOSING: Final = word_set(
    """
    if unless whether maybe perhaps possibly probably presumably supposedly might could suppose supposing supposed
    assume assuming assumed assumes imagine imagining pretend pretending wonder wondering wish wishing wished
    hypothetical hypothetically potentially theoretically seem seems seemed likely unclear otherwise once someone
    somebody ideally guess unsure e.g example
    """
)
"""A sentence with one of these states no fact."""

SUPPOSING_PHRASES: Final = (
    " looks like ", " look like ", " feels like ", " sounds like ", " let us say ", " in case ", " not know ",
    " not sure ", " not think ", " not remember ", " i think ", " i believe ", " i suspect ", " i bet ", " i doubt ",
    " i feel ", " who knows ", " as though ", " as if ", " what about ", " how about ", " for instance ",
)  # fmt: skip
SUPPOSING_WITHIN: Final = frozenset(word for phrase in SUPPOSING_PHRASES for word in phrase.split()) - {
    "i",
    "is",
    "like",
}
"""Each phrase contains one of these words."""

TRAILING: Final = word_set(
    """
    way btw though please ok okay thanks days nowadays moment now currently anymore already too well know today
    yesterday honestly actually week month year ever all on lol haha xd again then ago
    """
)
"""Last words of trailing phrases."""

REPORTING: Final = word_set(
    """
    said say says saying claim claims claimed claiming wrote writes told tells tell telling according reads print
    prints printed stated states mention mentions mentioned mentioning report reported argues argued arguing suggest
    suggests suggested suggesting suggestion quote quotes quoted quoting apparently allegedly rumour rumours rumor
    rumors heard comment comments commented goes show shows showed ask asks asked stands output outputs log logs
    logged promised thinks thought believes believed
    """
)
"""A sentence with one of these reports what others say or do."""

TO_REPORT: Final = word_set(
    "say tell mention show ask log report print quote suggest claim comment promise output argue"
)
"""Verbs that may be ordered, although they also report."""

REPORTS: Final = word_set("comment comments log logs output outputs report print prints quote quotes claims suggestion")
"""Nouns that an order may be about, although they also report."""

ORDERING: Final = word_set(
    "please you we i must should need have want make sure be ensure remember try that to do not always never ever stop"
)
"""Words of an order before its verb."""

BASE_FORMS: Final = word_set(
    "reply apply supply comply rely multiply fly bring sing ring ping string exceed proceed succeed embed feed seed"
)
"""Verbs with endings that usually mark other word forms."""

BOUND: Final = word_set(
    """
    the a an this that these those my our your his her its their it me us him them you one each both to for in on at of
    with about up out off over into through like so as too and or but now yet here there just only being trying going
    doing having working thinking being
    """
)
"""Words after `stop` that make the order about one case."""
