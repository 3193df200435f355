"""Two more voices for English articles: a columnist's, and that of news in brief.

English texts differ in their small words as much as in their nouns: a column is full of I, you and
we, a bulletin has hardly an article. One voice alone would make all texts of the stream relatives.
They mix with each other and with the news (articles_en.py).
"""

from __future__ import annotations

COLUMN: dict[str, str] = {
    "lede": """
        I had never given [much|any] thought to {subject} [before {day}|until they were gone];
        my neighbour, {an_actor}, tells me that {view}, and [I believe her|who am I to argue];
        if you live near {place}, you [will have heard|may have read]: {office} {did};
        let me begin with {problem}, because [we all know about it|you will have met it too];
        you would not expect me to [defend|praise] {subject}, but [here I am|I will];
        [they|people] keep asking me [why I write|what I think] about {subject}. This is why:
        {result}
    """,
    "fact": """
        we are told that {office} will {do}, and I [shall believe it when I see it|hope so];
        do you remember when {firm} {did}? I do, and [so does {name}|it was not so long ago];
        my own list is short: {do}, {do}, [stop|and leave us in peace];
        what I want from {office} is [not much|simple]: {do} [as they promised|before I retire];
        you can have {thing} or you can {do}, but [not both|you must choose];
        some of my friends are {crowd}, and they would rather {do} [than read me|any day];
        [if|whenever] they {do}, [someone|my neighbour] will ask about {thing}, and rightly so;
        [nobody|not one of us] would give up {thing} for {thing}, whatever {office} may think;
        I [asked|wrote to] {firm} about {thing}. They answered after {span}: they would {do};
        our {thing} are as good as any, yet we send our {crowd} off to {place2} for {thing}
    """,
    "figure": """
        they say {figure}, which is [more|less] than I [would have guessed|was told];
        if I [read it|add it up] correctly, {figure};
        my rule of thumb is this: as long as {figure}, we are doing [well|better than most];
        {figure}. You may call that [progress|bad luck], I call it [a start|arithmetic]
    """,
    "quote": """
        “{View},” my friend {name} likes to say, and I [agree|wish it were so];
        as {speaker} told me, {view};
        I once heard {speaker} say: “{View}.” [It stuck with me|I have not forgotten it];
        “{View}?” you may ask. [No, I would answer|Yes, and why not]: {view};
        {speaker} [wrote|rang] to put me right. “{View}.”
    """,
    "scene": """
        I went to see for myself. {Scene};
        you should have been with me: {scene};
        when I got [there|home again], {scene}, and I [thought of you|forgot my question];
        have you ever stood near {site} [after dark|in winter]? {Scene}
    """,
    "problem": """
        I know what you will say: {problem}. [And you are right|But is it];
        we have lived with {problem} [for as long as I can remember|since {year}];
        nobody [told|warned] us about {problem}, did they?;
        I blame {problem}, you may blame {problem}, and we could both be right;
        who could have known that {problem} would follow {problem}?
    """,
    "turn": """
        then they {did}, and I changed my mind;
        you cannot argue with this: {result};
        I was wrong: {result}, and [I am glad of it|so much for my forecast];
        [what|and what] if we all {did}? {name} tried, and {result};
        it took them {span}, but they {did} [all the same|as if it were nothing]
    """,
    "history": """
        when I was young, {thing} meant [little|everything] to us;
        my grandmother, who was {an_actor}, {did} as early as {year};
        ask anyone who lived here when {problem} ruled our days, as I did [in|until] {year}
    """,
    "outlook": """
        I would {do}, and if that fails, {do};
        ask me again after {span}, [when they have {done}|if I am still here];
        you will see: {thing} will be next, [mark my words|and I shall be sorry];
        we shall need {money}, and we shall have to {do}
    """,
    "close": """
        that is all I have to say about {subject}, until they {do};
        write to me if you [think otherwise|know better];
        as for me, I am off to {site}
    """,
}
BULLETIN: dict[str, str] = {
    "lede": """
        {place}, {day}: {office} to {do};
        [news|notes] in brief from {place}: {result};
        {subject} again: {figure};
        {day}, {place}. {Firm} {did} after {problem}
    """,
    "fact": """
        planned within {span}: {doing}, {doing};
        also under review: {thing}, {thing}, {thing};
        {firm} pays {money}, {office} adds {money};
        work by {firm} starts {day}, lasts {span};
        open to {crowd}, free of charge, no booking needed;
        {doing} costs {money}, half of which {firm} covers;
        not included: {thing}, {thing};
        {place2} {did} likewise during {year}, then dropped {thing};
        {thing} first, {thing} later;
        [panel|jury] members: {name}, {actor}, plus {#2-9} {crowd};
        {doing} comes before {doing}, says {office};
        [free|new] for {crowd}: {thing} near {site}
    """,
    "figure": """
        [key|main] numbers: {figure};
        latest count, {day}: {figure}, {figure};
        since {year}: {figure};
        {figure}, [up by|down by] {#2-46}.{#1-9} per cent
    """,
    "quote": """
        {speaker}: “{View}.”;
        [comment|reply] from {speaker}: “{View}.”;
        overheard near {site}: “{View}.”;
        {speaker} on {thing}: “{View}.”
    """,
    "scene": """
        seen near {site}: {scene};
        {scene}
    """,
    "problem": """
        [obstacle|snag]: {problem};
        {problem} caused delays lasting {span};
        reported by {crowd}: {problem}, {problem};
        {problem} plus {problem} keep {crowd} busy;
        [still|as yet] unsolved: {problem}
    """,
    "turn": """
        [response|remedy]: {doing}, {doing};
        [result|outcome] so far: {result};
        {firm} {did} within {span};
        {crowd} {did} instead, led by {name};
        {office} {did} during {year}, yet {problem} returned
    """,
    "history": """
        background: {place} {did} during {year};
        {year}: {firm} begins with {thing}, {#3-40} people on its books;
        {name} held this post from {year}
    """,
    "outlook": """
        next: {doing}, {doing};
        [deadline|closing date] for comments: {day};
        expect {thing}, perhaps {thing}, within {span};
        {office} wants {money} more before {doing}
    """,
    "close": """
        more next {weekday};
        questions go through {name}, {office};
        [picture|photograph]: {name}, {place}
    """,
}
