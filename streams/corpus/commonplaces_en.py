"""English words of every trade: what may happen, be said or be seen whatever the topic.

Two articles of one topic would otherwise share most of their phrases once both are long, since a
topic's own lists are soon used up.
"""

from __future__ import annotations

COMMONPLACES: dict[str, str] = {
    "actors": """
        retired clerk; councillor; shop steward; night watchman; local reporter; treasurer;
        apprentice; parish clerk; letter writer; pensioner; taxi driver; trainee
    """,
    "crowds": """
        neighbours; newcomers; pensioners; sceptics; old friends; local people; weekend
        visitors; taxpayers; onlookers; relatives
    """,
    "sites": """
        a church hall; somebody's kitchen; the town hall; a borrowed tent; room twelve; a side
        street; the front office; an upstairs landing; a disused garage; the waiting room
    """,
    "actions": """
        draw up [a shortlist|new terms]; ask [a judge|the ombudsman] to decide; hold [a
        raffle|an open day]; halve [the fee|its staff]; knock on [every door|two hundred doors];
        send [a delegation|flowers]; split [the bill|costs] three ways; keep [minutes|a diary];
        rent [a marquee|extra space]; drop [the slogan|charges]; test [three suppliers|a pilot
        scheme]; appoint [a deputy|an arbiter]; tear up [the contract|last year's plan];
        apologise in writing; double [the deposit|opening hours]; name [a successor|names]; burn
        the midnight oil; borrow against future income; consult [lawyers|a hundred households];
        print [posters|the accounts]; toss a coin; phone [every member|the minister]; postpone
        [a vote|repairs]; take [soundings|a year's lease]
    """,
    "problems": """
        a lack of [money|volunteers|time]; bad luck; an old feud; wet weather; red tape;
        [muddled|missing] paperwork; a lost key; two resignations; rumours; a broken promise;
        petty theft; double booking; poor signposting; an outbreak of colds; legal threats;
        [slow|wrong] advice; a misprint; a change of owner; noise at night; rising
        [wages|costs]; late deliveries; half-hearted support; vandalism; a tax demand;
        stubbornness on both sides; a computer crash; road closures; an unsigned letter; hurt
        pride; stage two delays; weak leadership; three false starts
    """,
    "results": """
        complaints [dried up|halved]; both sides claimed victory; the waiting list
        [shrank|vanished]; money was left over; strangers began to help; the local paper printed
        an apology; [no one|only one person] resigned; the idea spread to [other counties|the
        coast]; someone baked a cake; the doubters went quiet; costs came in under budget; the
        phone never stopped ringing; a rival copied the plan; lawyers went home empty-handed;
        volunteers signed up in [dozens|droves]; tempers cooled; the letter got an answer at
        last; everybody slept better; queues disappeared [overnight|within days]; the vote
        passed by [two|nine]; prices fell a little; old quarrels were forgotten; an anonymous
        donor paid the rest; the award went to somebody else; the noise stopped; three more
        towns asked how it was done; the mayor [kept|broke] her word; nothing caught fire
    """,
    "figures": """
        turnout was {#31-92} per cent; {#40-9600} people signed; the bill came to {#3-870}
        thousand pounds; {#6-140} letters arrived in one week; meetings lasted {#2-9} hours;
        costs rose by {#2-39} per cent; {#12-480} volunteers took part; it took {#3-70}
        attempts; {#51-88} per cent were in favour; the website had {#2-95} thousand visits;
        waiting took {#11-75} minutes; {#2-19} complaints were upheld; savings reached {#4-640}
        thousand pounds; the oldest person there was {#84-103}; numbers doubled in {#2-11}
        years; only {#3-24} per cent objected
    """,
    "views": """
        common sense costs [nothing|less than a consultant]; somebody has to go [first|home
        last]; good intentions do not [pay wages|fix roofs]; if it were easy, [others|the
        council] would have done it; small things add up; patience is not a [plan|strategy]; we
        learned it the [slow|expensive] way; half of the job is [listening|tidying up]; people
        want to be asked; nothing is free except [advice|fresh air]; promises are cheap in
        [April|an election year]; it will not mend itself; luck had a hand in it; trust takes
        years and goes in a day; every plan survives until [lunch|Monday]; we are all beginners
        at this; two wrongs make a [committee|habit]; I would do it again tomorrow; ask me when
        it is paid for; you get used to anything; there is always one more form to fill in; the
        young see it differently, thank heavens; it was never about money; silence is also an
        answer; you cannot please [everyone|my brother-in-law]; we did what we could with what
        was there; that is how [mistakes|legends] are made; better late than [sorry|twice]; a
        bad compromise beats a good quarrel; tomorrow is another shift; nobody else was going
        to; perfect is for [brochures|museums]; I sleep well, if that is what you mean; one good
        neighbour is worth ten experts; facts travel slower than gossip; it looked simpler on
        paper
    """,
    "scenes": """
        a clock ticked loudly between two [speeches|answers]; someone laughed in the next room;
        a kettle came to the boil and clicked off; rain ran down the [windows|noticeboard];
        children chased a balloon between parked cars; a window banged upstairs; an old radio
        played dance music; the smell of wet coats filled the [hallway|back row]; two men
        carried a ladder past, arguing; coffee was served from a dented flask; a cat slept on
        the agenda; papers blew off the table and were [gathered up|trodden on]; snow began to
        fall without anyone noticing; a phone rang {#4-19} times and stopped; somebody had
        written thank you on the wall in chalk; the lights flickered but held; a bus full of
        singers went by; a woman in green took notes in shorthand; the last biscuit lay
        untouched; chairs scraped as everyone stood; a dog barked at its own reflection; pigeons
        walked in through the open door
    """,
}
"""Word lists by role (topics.py)."""
