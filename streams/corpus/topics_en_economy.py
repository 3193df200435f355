"""English topics of the economy: farming, banking, software, shipping."""

from __future__ import annotations

from streams.corpus.topics import topic

FARMING = topic(
    "Farming",
    " ",
    things="""winter barley; dairy herds; hedgerows; seed potatoes; combine harvesters; lambing
        sheds; soil samples; apple orchards; drainage ditches; milk quotas; beehives; fertiliser
        prices; hay bales; cover crops; tractor parts; sugar beet; slurry tanks; farm shops;
        polytunnels; cattle grids; grain dryers; sheepdogs; oilseed rape; wild oats; crop
        rotations; free-range hens; water troughs; hop gardens""",
    actors="""dairy farmer; shepherd; agronomist; beekeeper; farm vet; grain merchant;
        contractor; grower""",
    crowds="""growers; tenant farmers; shepherds; fruit pickers; smallholders; vets; young
        farmers""",
    offices="""Farmers' Union; Agricultural College; Drainage Board; Livestock Market; County
        Show""",
    firms="Seeds; Growers; Dairies; Farm Machinery; Grain; Fruit Farms",
    actions="""sow [rye|clover|field beans] between [harvests|the rows]; drench [ewes|calves]
        against [fluke|worms]; replant [hedges|the orchard] with [hawthorn|cider apples]; dig
        [ponds|swales] to hold winter rain; sell [raw milk|vegetable boxes] at the gate; cut
        [nitrogen|diesel] use; graze [sheep|geese] under solar panels; pool [combines|cold
        stores]; vaccinate badgers; dry grain with [straw boilers|waste heat]; breed
        [hornless|hill] cattle; let [field margins|wet corners] grow wild; map the soil by
        [satellite|quad bike]; pick [hops|plums] before the storm""",
    sites="""the milking parlour; the top field; the livestock ring; the lambing shed; the grain
        store; the packhouse; the water meadow; the hop kiln""",
    problems="""a wet [harvest|spring]; low milk prices; potato blight; sheep worrying; a
        shortage of pickers; broken drains; bluetongue; [slugs|pigeons] in the rape; rising feed
        costs; late frost; stolen quad bikes""",
    results="""yields held up in spite of the [drought|rain]; the vet's bill shrank; earthworms
        came back; the co-operative paid [a bonus|on time]; skylarks nested in the
        [stubble|margins]; the cheese won a silver medal; fewer lambs were lost; the soil held
        [together|its water]; two sons came home to the farm""",
    figures="""wheat averaged {#6.1-11.4} tonnes a hectare; milk fetched {#22-46} pence a litre;
        the farm runs to {#60-2400} acres; lambs made {#68-154} pounds a head; the cows gave
        {#18-39} litres a day; organic matter rose to {#2.1-6.8} per cent; pickers filled
        {#900-26000} crates; rainfall was {#11-190} millimetres for the month""",
    views="""you farm for the [grandchildren|next tenant], not for the season; the soil keeps
        better books than my [accountant|bank]; sheep spend their lives looking for ways to
        [die|escape]; a good hedge is worth [two fences|a dozen leaflets]; cheap food is paid
        for [somewhere|by someone]; I have seen {#22-58} harvests and no two were alike; when
        the [rooks|swallows] leave early, so do we; the weather does not read the forecast""",
    scenes="""steam rose from the backs of the [heifers|bullocks] as they filed in; a collie lay
        flat in the grass, watching {#30-300} sheep and one [photographer|inspector]; the
        auctioneer's patter ran so fast that only the [farmers|dogs] seemed to follow it; in the
        barn, swallows flew in and out over the [idle baler|feed bins]; mud had come over the
        top of everybody's boots by [noon|breakfast]; a row of [pumpkins|cider jars] stood at
        the gate beside an honesty box; the combine's lights moved through the dust like a [slow
        ship|lantern parade]""",
)

BANKING = topic(
    "Banking",
    " ",
    things="""savings rates; bank branches; mortgage arrears; cash machines; insurance claims;
        pension funds; credit unions; bond yields; overdraft fees; fraud alerts; share prices;
        exchange rates; audit reports; small-business loans; government bonds; tax returns; card
        readers; debit cards; cheque books; dividends; hedge funds; bad debts; safe-deposit
        boxes; credit scores; money transfers; annuities; ledgers; invoices""",
    actors="""branch manager; auditor; economist; fund manager; cashier; insurance broker;
        treasurer; fraud investigator; loan officer""",
    crowds="savers; shopkeepers; investors; borrowers; pensioners; cashiers; shareholders",
    offices="""Chamber of Commerce; Credit Union; Savings Bank; Financial Ombudsman; Revenue
        Office""",
    firms="Bank; Insurance; Capital; Building Society; Accountants; Payments",
    actions="""raise [savings rates|capital]; waive [overdraft fees|late charges]; lend to
        [bakers|taxi drivers|potters] against [invoices|future sales]; close [nine branches|the
        trading desk]; trace [stolen|misdirected] transfers; write off [student|farm] debts;
        insure [greenhouses|fishing boats|school trips] against [hail|storms]; settle claims
        within [a week|three days]; ring-fence [deposits|the pension fund]; bring cash by
        [van|boat]; freeze [suspicious accounts|dividends]; redesign the [bank statement|tax
        form] in plain words; hedge [sugar|fuel|currency] prices; teach [teenagers|newcomers]
        how to [budget|spot a scam]""",
    sites="""the banking hall; the trading floor; a mobile branch; the vault; the shareholders'
        meeting; the claims office; the counting room""",
    problems="""rising defaults; forged [cheques|invoices]; a run on deposits; thin margins;
        card fraud; late payments; branch closures; volatile [currencies|shares]; hidden fees; a
        computer failure; weak reserves""",
    results="""deposits [held steady|grew]; the shares recovered by the close; fraud losses fell
        by [a fifth|half]; {#20-700} small firms got their first loan; claims were paid before
        [winter|Easter]; the regulator closed its inquiry; borrowers paid back early; the queue
        at the counter vanished; the fund returned the money with interest""",
    figures="""the base rate stood at {#0.50-5.75} per cent; profits came to {#1.2-94.0} million
        pounds; bad debts were {#0.4-4.8} per cent of the book; the shares closed at {#84-960}
        pence; the fund holds {#0.6-38.0} billion pounds; claims averaged {#310-9800} pounds;
        the branch serves {#1200-26000} customers; the spread widened to {#40-310} basis points""",
    views="""money is [patient|nervous], people are not; a loan is a bet on somebody's
        [mornings|character]; nobody rings the bank with good news; the risk you
        [insure|measure] is rarely the one that arrives; compound interest is the only magic I
        have [seen|met] in {#15-40} years; a scam always wants you to [hurry|keep a secret]; if
        you cannot explain the fee, do not charge it; a ledger should read like a diary""",
    scenes="""a clerk stamped {#40-200} forms before she looked up; numbers rolled across the
        wall in [green|amber], and nobody watched them; the vault door was left ajar with a [mop
        bucket|rubber wedge]; an elderly couple counted [coins|receipts] into small paper bags;
        on the desk lay a [slide rule|brass bell] that no one had the heart to throw away; the
        cash van reversed past the [war memorial|fish stall], beeping; the chairman spilled his
        [water|coffee] at the word bonus""",
)

SOFTWARE = topic(
    "Technology",
    " ",
    things="""language models; data centres; software updates; battery packs; phone apps; chip
        factories; encryption keys; robot arms; bug reports; search engines; satellite links;
        memory leaks; test suites; cloud bills; password managers; voice assistants; open-source
        licences; circuit boards; web browsers; smart meters; video calls; spam filters; weather
        sensors; game consoles; delivery drones; server racks; text editors; payment terminals""",
    actors="""software engineer; security researcher; product manager; chip designer; founder;
        tester; network engineer; data scientist; maintainer""",
    crowds="""developers; early users; testers; researchers; hobbyists; engineers; start-up
        founders""",
    offices="""Science Park; Data Protection Office; Institute of Technology; Digital Service;
        Innovation Centre""",
    firms="Robotics; Software; Semiconductors; Networks; Labs; Analytics",
    actions="""patch [the flaw|a memory leak|old routers] within [hours|a day]; release [the
        source code|model weights]; cool servers with [seawater|outside air]; train [the model|a
        classifier] on [birdsong|court records|knitting charts]; pay [bug hunters|volunteers] a
        bounty; retire [the mainframe|fax machines]; encrypt [backups|medical scans]; port [the
        compiler|a game] to [tiny chips|old handhelds]; recall [chargers|smart locks]; let users
        [export|delete] their data; teach robots to [fold shirts|peel prawns]; simulate
        [traffic|blood flow]; rewrite [the scheduler|billing] from scratch; measure
        [latency|power draw] in public""",
    sites="""the clean room; a windowless server hall; the test track; the hackathon; a garage
        in the suburbs; the help desk; the demo stage""",
    problems="""a leaked password file; flaky tests; overheating batteries; a shortage of chips;
        vendor lock-in; biased [results|training data]; a botched update; patent claims; soaring
        cloud bills; burnt-out maintainers; an expired certificate""",
    results="""pages loaded [twice|three times] as fast; the outage ended before [lunch|the
        markets opened]; crash reports dried up; the library gained {#30-900} contributors;
        power use fell by [a third|half]; old [phones|laptops] came out of drawers; the robot
        dropped [nothing|only one egg] all day; customers stopped printing their emails; the
        attackers found nothing to steal""",
    figures="""the service handles {#4-960} thousand requests a second; the battery lasts
        {#9-52} hours; the model has {#1-180} billion parameters; the chip measures {#12-640}
        square millimetres; tests now run in {#2-48} minutes; {#0.2-41.0} million people
        installed it; accuracy reached {#87.1-99.3} per cent; the round raised {#2-240} million
        pounds""",
    views="""a demo is a [promise|magic trick], a product is a chore; the bug is always in the
        line you [trust|did not read]; we do not have a data problem, we have a
        [spelling|naming] problem; nobody ever thanked a backup until [Tuesday|the fire];
        software ages like [fish|milk], hardware like wine; I deleted {#3-40} thousand lines and
        it was the best week of the year; make it boring, then make it fast; the hard part was
        getting people to [switch it off|write things down]""",
    scenes="""fans roared so loudly that the team spoke in [gestures|chat messages]; a robot arm
        paused over the [teacup|chessboard], as if it were thinking; the whiteboard still said
        do not erase above a [shopping list|half-finished proof]; somebody had taped googly eyes
        to the [router|server rack]; at {#1-4} in the morning the graph finally went flat; a
        drone wobbled over the [hedge|car park] with a parcel of [socks|insulin]; empty pizza
        boxes formed a tower next to the [soldering station|fire exit]""",
)

SHIPPING = topic(
    "Shipping",
    " ",
    things="""container ships; dock cranes; fishing quotas; lifeboats; customs papers; ferry
        crossings; harbour tugs; lighthouse lamps; cargo manifests; pilots; dry docks; fuel
        surcharges; anchor chains; oyster beds; sea walls; freight rates; radar masts; lobster
        pots; life jackets; ballast tanks; trawlers; mooring ropes; tide tables; shipyards;
        bills of lading; cruise terminals; reefer containers; buoys""",
    actors="""harbour master; skipper; ship's engineer; customs officer; docker; coxswain; naval
        architect; fish buyer""",
    crowds="""dockers; skippers; islanders; ferry passengers; deckhands; lifeboat volunteers;
        fishermen""",
    offices="""Harbour Commission; Coastguard Station; Port Authority; Fish Market; Nautical
        College""",
    firms="Shipping; Marine; Ferries; Towage; Shipyard; Seafoods",
    actions="""dredge [the channel|the inner basin]; raise [a sunken trawler|the lock gates];
        scan [every container|pallets of fruit] for [drugs|stowaways]; rig [sails|kites] on
        [freighters|the ferry]; relight [the beacon|old lamps]; land [mackerel|crab] at
        [dawn|the new quay]; reroute [tankers|convoys] around the [cape|storm]; lengthen [the
        breakwater|berth six]; scrap [rusting hulls|two coasters] under cover; rescue
        [kayakers|a whale calf]; plug ships into shore power; tag [lobsters|nets]; unload
        [timber|grain|wind turbine blades] in one tide; cut [demurrage|crane hours]""",
    sites="""the quayside; the pilot cutter; the fish auction; the lock gates; the lifeboat
        slip; the bridge of the ferry; the container yard""",
    problems="""silted channels; dock strikes; ghost nets; engine trouble; a backlog of
        containers; thick fog; oil on the beach; crew shortages; piracy; a broken lock gate;
        failing fish stocks""",
    results="""ships turned round in [a day|one tide]; the queue in the bay cleared; cod
        [returned|grew larger]; freight rates eased for [the third|a second] month; nobody got
        more than wet feet; the ferry sailed in all but the worst gales; seals hauled out on the
        [slipway|breakwater]; the yard won an order for two [tugs|hospital ships]; insurance
        premiums came down""",
    figures="""the port handled {#0.2-6.8} million tonnes; the vessel is {#38-366} metres long;
        cod fetched {#2.10-7.90} pounds a kilo; waves reached {#3-14} metres; the crane lifts
        {#18-120} tonnes; a crossing takes {#25-190} minutes; {#40-2900} containers went ashore;
        the lifeboat launched {#12-140} times""",
    views="""the sea does not [negotiate|read contracts]; every rope on this boat is there
        because someone once [needed it|went over]; a port is a [conversation|quarrel] between a
        river and a railway; fog makes everyone polite; I have been seasick for {#12-36} years;
        you load a ship from the bottom and [argue|pray] from the top; fish do not know which
        side of the line they are on; the tide is the only boss I never [cheated|answered back]""",
    scenes="""gulls hung over the trawler like [torn paper|a bad conscience]; a crane swung its
        load over the [chapel|customs shed] roof without a sound; the skipper wiped the salt
        from his [glasses|chart] with a sleeve; green water broke across the [bow|wheelhouse]
        and drained away; on the quay, crates of [crab|herring] steamed faintly in the cold; a
        deckhand threw the line {#2-4} times before it caught; the foghorn sounded, and every
        [dog|window] in the street answered""",
)
