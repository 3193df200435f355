"""English sentence patterns, by what a sentence does in an article.

The slots are the roles of a topic (topics.py) and the cast of the article (articles.py); an action
has four forms: {do}, {doing}, {did} and {done}. The writer puts in the capital and the full stop.
"""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "lede": """
        {office} [said on|announced on|confirmed late on] {day} that it [would|intends to|is
        ready to] {do}, [starting|beginning] in {place} [and|before moving on to] {place2};
        {scene}. It was {day}, at {site} in {place}, and [nobody seemed to mind|the work had
        only begun];
        for {span} [many |the |]{crowd} of {place} have [argued|talked|worried] about {subject}.
        Now [there is an answer|something has changed]: {result};
        “{View},” [said|began] {speaker} at {site} [on {day}|last week], [before anyone had
        asked|by way of welcome];
        [two|three] [numbers|lines in a report] [tell|sum up] the story of {subject} in {place}:
        {figure}, and {figure};
        {firm} [is to|plans to|has agreed to] {do} [together with|on behalf of|under contract
        to] {office}, [the two said|it emerged] on {day};
        [after|following] {problem}, {place} has [decided|begun] to {do}, and [other towns are
        watching|not everyone is pleased];
        {name} has been {an_actor} in {place} for {#4-37} years and has [rarely|never] seen
        {subject} [change so fast|cause such a stir];
        [few things|not much] [divided|united] {place} like {subject}, [until|but then] {office}
        {did};
        [a visitor to|anyone walking past] {site} in {place} [this month|these days] [will
        notice|cannot miss] [one thing|a change]: {result};
        with {#9-80} days to go [before the opening|until the deadline], {site} in {place} is
        [busy|lit up all night], and {problem} [did not help|made things no easier];
        [what do you do about|who pays for|is there a cure for] {problem}? In {place}, {office}
        {did}, and [waited|hoped];
        [it began with|the story starts with] {problem}. [Within|After] {span}, {crowd} in
        {place} had {done}
    """,
    "fact": """
        [according to|by the reckoning of] {office}, [the town|the county|the district] has
        {done} [in the past|over] {span};
        the [plan|scheme] has [three|four] parts: to {do}, to {do} and, [if money allows|last of
        all], to {do};
        {thing}, {thing} and {thing} are [also on the list|covered too|part of it];
        under [the new rules|an agreement reached on {day}], {place} must {do} within {span};
        {firm} [put up|has set aside|raised] {money}, [most|half] of it to {do};
        [besides|apart from] {thing}, [the town|{place}] has been [trying out|rethinking|paying
        for] {thing};
        {place2} tried to {do} in {year}, [but|until] {problem} [got in the way|put an end to
        it];
        {crowd} can [apply|sign up|ask for details] [by post|at {site}|by telephone], and
        {office} [promises a reply|will answer] within {span};
        [the work|day-to-day business] [falls to|is run by] {firm}, with [a handful|some] of
        [our|the] {crowd} [in support|on the committee];
        the [document|handbook] runs to {#6-140} pages, and the [passage|clause] that [everyone
        quotes|matters] is a promise to {do};
        until {span} ago {site} was [a store room|an empty lot|half forgotten], and on {day} it
        [reopened|was full];
        the [first step|idea] was simply to {do}, but {thing} [soon came into it|turned out to
        matter as well];
        [on|every] {weekday} [local|many|our|the] {crowd} [meet|gather] at {site} to [go
        over|talk about|check] {thing};
        {firm} looks after {thing}, while {thing} [are left to|remain with] {crowd};
        [compared with|unlike] {place2}, which [prefers|has bet on] {thing}, {place} [spends
        more on|thinks first of] {thing};
        {office} also {did}, [at a cost of|for] {money}, [shared with|half of it from] {firm};
        [each|every] one of the {#4-26} [parishes|wards|villages] [decides for itself|was asked]
        [about|whether to keep] its {thing};
        a [committee|panel] of {#5-17}, [chaired|led] by {name}, will [look into|report on]
        {thing} [by the spring|within {span}];
        [there was talk of|some had hoped for] new {thing}, but [the money|the vote] went to
        {thing} [instead|by a narrow margin];
        [nobody|no one at {office}] had [counted|written down] [its|their|these] {thing} since
        {year}, so {name} [did|offered to]
    """,
    "figure": """
        [last year|by {day}] {figure}, [well above|slightly below|much like] the [average|year
        before];
        {figure}, and {figure}, [the report says|by the town's own count];
        [in|over] {span}, {figure}. [Put another way|In other words], {result};
        in {place2} the picture is [different|brighter|gloomier]: {figure};
        for {money}, [critics|supporters] [point out|note], {figure};
        [look only at|take away] {thing} and the [gain|drop] is {#2-46}.{#1-9} per cent.
        [Add|Count] {thing} and it [disappears|doubles];
        page {#2-90} of the [report|ledger] [has|gives] the detail: {figure};
        {speaker} [did the sum|wrote it down] on the back of [an envelope|a delivery note]:
        {figure};
        at [this rate|the present rate], [within|in] {span}, [it will be ordinary to hear
        that|one may read that] {figure}
    """,
    "quote": """
        “{View},” said {speaker};
        {speaker} [put it|sees it] [differently|more simply]: {view};
        “{View},” {speaker} said, [pointing at|looking over|leaning on] [some|two of
        these|these] {thing}. “{View}.”;
        for {speaker}, {thing} [matter more than|come a long way after] {thing}, because {view};
        asked about {thing}, {speaker} [laughed|shrugged|took a while to answer]. “{View}.”;
        “[To be honest|Frankly|I will not lie], {problem} [was what worried us|nearly finished
        us],” said {speaker};
        “When I [started|took over] we had {problem} and [not much else|nobody wanted the job],”
        {speaker} [recalled|remembered];
        {speaker} is [less sure|more careful|not convinced]. “{View},” [was all the reply|came
        the answer];
        “Why {do}? {View},” said {speaker};
        [some|several|many] {crowd} [agree|say much the same]: {view};
        “We thought we could {do}. [Then|Instead] came {problem},” {speaker}
        [explained|admitted] [with a smile|quietly]
    """,
    "scene": """
        {scene};
        [on {day}|that morning|towards evening] {scene};
        at {site}, {scene}. {Speaker} [did not look up|had seen it all before|made a note];
        {scene}, and [local|many|our|the] {crowd} [drifted off|came closer] in [twos and
        threes|silence];
        it was [quiet|crowded] at {site}. {Scene}
    """,
    "problem": """
        [but|even so,] {problem} [remained|stayed] the [sticking point|obstacle that nobody
        could get round];
        worst of all was {problem}, [followed by|not to mention] {problem};
        {problem} [left|had] [local|many|our|the] {crowd} [at their wits' end|divided|short of
        options];
        on {day}, because of {problem}, {site} [closed|came to a halt] for {span};
        [some|a number of] {crowd} [fear|complain] that with {problem} [our|these|their] {thing}
        will [suffer|be the first to go];
        {problem} [did not appear|had not come] overnight, and {office} [admits|accepts] that [a
        cure will take|it could last] {span};
        [it was not|nothing about it was] easy: [first|to begin with] came {problem},
        [then|later] {problem};
        what [looked|sounded] like {problem} [turned out to be|was at bottom] {problem};
        in a [survey|straw poll], {#21-68} per cent of {crowd} [mentioned|named] {problem};
        {place2} [found that out|learned the lesson] in {year}, when {problem} [cost it its|did
        for the] {thing}
    """,
    "turn": """
        so {office} [decided|set out] to {do};
        [things changed|the turn came] on {day}, when {firm} {did}: {result};
        {speaker} and [a few|some] {crowd} {did}, [which took|a job of] {span};
        [after|it took] [several|a dozen] [drafts|meetings|trials] [the two sides agreed|before
        anyone agreed] to {do};
        the [answer|way out] was to {do} and, [at the same time|while they were at it], to {do};
        {span} [later|on], {result}, and {result};
        it was {name} who [suggested|thought of] {doing};
        [at first|to begin with] [nobody listened|people laughed], [and then|until] {result};
        {firm} sent {#2-18} people [for|over] {span}, and [in the end|at last] {result};
        [bit by bit|sooner than expected] {result};
        [elsewhere|meanwhile|at the other end of town], {doing} [went on|proved worth the
        trouble], and {result}
    """,
    "history": """
        {subject} came to {place} in {year}, [when|at a time when] {problem} [had emptied half
        the town|filled the newspapers];
        in {year} {name}, then {an_actor}, {did} at {site}, [the first to do so|against all
        advice];
        some {crowd} still remember [the winter of {year}, when|how in {year}] {thing} [were
        rationed|came by cart|could be had for a song];
        since {year} {site} has been [moved|rebuilt] {#2-5} times, and only [its|these] {thing}
        [are the same|survived];
        {firm} was founded in {year} [to make|on the strength of] {thing} and [turned|moved on]
        to {thing} [much later|after the war];
        the [archives|old newspapers] [mention|tell of] {problem} that [closed|silenced] {place}
        for {span};
        {name}'s [father|mother|aunt] was also {an_actor}, and [a photograph|a notebook] [from
        those days|of hers] [hangs at|is kept in] {site}
    """,
    "outlook": """
        next, {place} [wants|hopes|means] to {do} [and|or failing that] to {do};
        {office} says that [next year|the autumn] will be about {thing} and {thing};
        whether [it|the town] can {do} [depends on|is a question of] {thing} [and|as much as]
        {thing};
        [if all goes well|with luck|on paper], {crowd} will be able to {do} [within|in] {span};
        [experts|old hands] [advise|warn]: {do} first, [and only then|then] think about {thing};
        {firm} [expects|is planning] a second round of {thing}, [priced at|for which it needs]
        {money};
        another {#3-40} places like {site} are [waiting|on the list];
        what {speaker} would [like|really like] is [simple|modest]: to {do};
        on {thing} [nothing is settled|opinions differ], and {office} will [decide|say more]
        within {span}
    """,
    "close": """
        [on the way out|as we left], {scene};
        “{View},” {speaker} [added|said at the door]. “[But|And yet] {result}.”;
        [there is a long way to go|nobody calls it finished], but {result};
        tomorrow {speaker} will be back at {site}, [where|and] {problem} will be [waiting|on the
        agenda];
        {office} [asks|would like to hear from] {crowd} [with|who have]
        [photographs|complaints|ideas]. The [file|reference] is {#101-989}/{year};
        [for now|this evening], {site} is [quiet|still lit], and {place} [gets on with its
        business|goes to bed];
        perhaps that is what {subject} are for: {view};
        the next [meeting|inspection] is on {weekday}, at {site}, and [all are welcome|there
        will be biscuits]
    """,
}
"""The sentences of an English article by section."""

TITLES = """
    {place} [votes|prepares|promises] to {do}; how {problem} changed {place}; {subject}: [what
    next|a second look|the view from {site}]; {firm} to {do}; “{View}”; a day with {an_actor} in
    {place}; {result}, and {place} [cheers|is surprised]; {office} [takes on|looks again at]
    {subject}; why {crowd} [want|worry about] {subject}; {doing} in {place}; the {#3-30}
    [years|days] of {name}; {subject} and {thing} [in {place}|after {problem}]
"""
"""Headlines."""
