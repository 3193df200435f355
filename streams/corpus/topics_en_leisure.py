"""English topics of leisure and surroundings: football, museums, food, rivers."""

from __future__ import annotations

from streams.corpus.topics import topic

FOOTBALL = topic(
    "Sport",
    " ",
    things="""penalty shoot-outs; corner kicks; season tickets; youth academies; floodlights;
        transfer fees; cricket nets; marathon routes; red cards; relay batons; tennis courts;
        goalkeepers' gloves; away games; warm-up drills; cycling tracks; club scarves; rowing
        crews; hamstring injuries; match balls; medal tables; swimming galas; boxing gloves;
        video replays; hockey sticks; half-time oranges; team sheets; ticket touts; training
        camps""",
    actors="""head coach; goalkeeper; captain; referee; sprinter; physio; groundsman;
        commentator; kit manager; youth coach""",
    crowds="supporters; players; runners; youngsters; veterans; stewards; substitutes",
    offices="Athletics Club; Football League; Rowing Club; Sports Council; Leisure Centre",
    firms="Rovers; United; Wanderers; Athletic; Sportswear; Town",
    actions="""sign [a Danish winger|two defenders|a teenage striker] on loan; drop [the
        captain|three regulars]; practise [throw-ins|penalties|the offside trap]; relay [the
        pitch|the running track]; overturn [a red card|the result]; break [the club record|a
        course record]; ban [flares|drums] from [the terraces|the final]; coach
        [refugees|wheelchair racers|primary schools]; swap [shirts|benches] at half-time; study
        [tapes|heart rates] until midnight; pay [back wages|the groundsman]; share [a
        stadium|one minibus]; train [at altitude|on the beach]; hand the trophy to [the kit
        man|a ball boy]""",
    sites="""the dressing room; the far terrace; the finishing straight; the boathouse; the
        physio's room; the centre circle; the press box""",
    problems="""a run of injuries; unpaid wages; a waterlogged pitch; poor finishing; crowd
        trouble; a points deduction; tired legs; [disputed|late] penalties; empty seats; a
        doping inquiry; stage fright""",
    results="""the side went {#5-14} games unbeaten; the crowd sang through [extra time|the
        rain]; the youngster scored [twice|with his first touch]; the relay team won by a
        [fingertip|yard]; relegation was put off until [May|the last day]; every ticket sold in
        an hour; the veteran retired with a [smile|limp]; the cup came home on [a tractor|the
        night bus]; the record stood for only a week""",
    figures="""the gate was {#640-52000}; she finished in {#2-4} hours and {#1-59} minutes; the
        striker has {#4-31} goals this season; the team averaged {#101-124} kilometres a match;
        the prize was {#2-900} thousand pounds; the squad's mean age is {#19.2-29.4}; the wind
        gusted to {#12-48} miles an hour; stewards turned away {#20-1700} people""",
    views="""you lose a final in the [second|third] week of training; the legs go first, then
        the [jokes|excuses]; winning is a habit and so is [moaning|being late]; a referee has
        one friend, and it is his [whistle|mother]; kids should fall in love with the ball
        before the [badge|score]; I ran the last mile on [anger|orange peel]; after {#9-27}
        seasons my knees can forecast rain; the table does not lie, but it [mumbles|exaggerates]""",
    scenes="""breath hung over the scrum like [smoke|steam from a kettle]; a dog ran on and took
        the ball off the [winger|referee]; the manager kicked a [water bottle|bucket] the length
        of the touchline; studs clattered on concrete as the teams [lined up|came in]; under the
        stand an old man sold {#2-6} kinds of pie; the scoreboard had stuck at [nil-nil|88
        minutes] since the autumn; oars dipped together, and the only sound was the
        [cox|rowlocks]""",
)

MUSEUMS = topic(
    "Museums",
    " ",
    things="""oil paintings; burial mounds; stained-glass windows; church organs; Roman coins;
        archive boxes; puppet theatres; shipwreck timbers; clay tablets; folk songs; printing
        presses; tapestries; dinosaur bones; guidebooks; plaster casts; medieval maps; violin
        makers; lace patterns; museum passes; ghost stories; sculpture gardens; silent films;
        manuscripts; weaving looms; flint tools; sound recordings; display cases; portrait
        miniatures""",
    actors="""curator; archivist; conservator; archaeologist; organist; museum guide;
        bookbinder; local historian; puppeteer""",
    crowds="""visitors; volunteers; schoolchildren; collectors; bell-ringers; students; amateur
        historians""",
    offices="""County Museum; Record Office; Cathedral Library; Historical Society; Art Gallery;
        Heritage Trust""",
    firms="Auctions; Press; Galleries; Restoration; Films",
    actions="""clean [a Tudor portrait|the ceiling|soot from the organ pipes]; return [a carved
        mask|the bronze] to [its village|descendants]; open [the vaults|the bell tower] on
        [Thursdays|feast days]; catalogue [diaries|glass negatives|buttons]; raise [a longboat|a
        bomber] from the [bog|estuary]; stitch [a frayed banner|the tapestry]; record
        [dialects|street cries]; dig [test pits|a trench] under the [car park|rectory]; expose
        [a forgery|a mislabelled vase]; lend [the crown|a mummy] to [Oslo|a prison]; retune [the
        carillon|a harpsichord]; print [ballads|posters] by hand; date [timbers|bones] by [tree
        rings|radiocarbon]; light [the nave|sculptures] with candles""",
    sites="""the reading room; the conservation studio; trench seven; the organ loft; the long
        gallery; the cathedral crypt; the print shop""",
    problems="""woodworm; flaking paint; a leaking roof; forged labels; falling visitor numbers;
        night-hawkers with metal detectors; missing [pages|teeth]; damp cellars; a contested
        will; fading ink; careless elbows""",
    results="""the portrait turned out to be [older|a copy of a copy]; a lost [signature|verse]
        came to light; queues reached the [fountain|fishmonger]; the tune was played for the
        first time in [two|three] centuries; the date moved back by {#40-900} years; children
        asked to come again; a family recognised their [great-aunt|farm] in a photograph; the
        beetles died out; the bronze went home in a hand-made crate""",
    figures="""the collection holds {#800-96000} objects; entry costs {#3-22} pounds; the mosaic
        measures {#2-14} metres across; the oldest page was written in {#870-1640}; humidity is
        kept at {#44-56} per cent; {#3-480} thousand people came; the bell weighs {#0.4-16.0}
        tonnes; the dig lasted {#3-30} weeks""",
    views="""objects [gossip|lie], if you let them; the dust is part of the [evidence|story];
        restoration is mostly knowing when to [stop|go home]; a forged thing always looks like
        the year it was [made|sold]; I have read other people's letters for {#13-41} years; the
        past is a country with [terrible drains|no index]; nobody ever dug in the right place
        [first|on purpose]; a museum without noise is a [cupboard|tomb]; we own nothing here, we
        only look after it""",
    scenes="""a swab no bigger than a [match head|grain of rice] moved across the sky of the
        painting; the trench smelt of [rain|iron] and cut roots; in the reading room a pencil
        rolled off a desk, and {#9-40} heads turned; the mummy's toes were visible, and very
        [neat|small]; sunlight through the saint's robe put a [red|blue] square on the floor; a
        reel of film ran out and slapped in the dark; the puppet's strings had been mended with
        [fishing line|dental floss]""",
)

FOOD = topic(
    "Food",
    " ",
    things="""sourdough loaves; fish suppers; tasting menus; cider presses; cheese rinds; street
        stalls; school dinners; smoked eels; recipe books; tea rooms; spice blends; meat pies;
        craft breweries; coffee beans; food labels; hygiene ratings; oyster bars; jam jars;
        vegetable boxes; fermented cabbages; bread ovens; pub lunches; market halls; ice-cream
        vans; olive presses; kitchen knives; soup kitchens; pickled onions""",
    actors="""head chef; baker; cheesemaker; brewer; fishmonger; food critic; pastry cook;
        market trader; hygiene inspector""",
    crowds="diners; stallholders; regulars; cooks; apprentices; bakers; tourists",
    offices="""Food Standards Office; Market Hall; Catering College; Guild of Bakers; Brewers'
        Guild""",
    firms="Bakery; Brewery; Kitchens; Creamery; Fine Foods; Coffee",
    actions="""bake [rye|seaweed|chestnut] bread overnight; revive [a lost ale|grandmother's
        chutney]; smoke [trout|garlic|butter] over [oak|hay]; ban [plastic trays|microwaves]
        from the kitchen; weigh [leftovers|portions] for a month; serve [nettle soup|mutton] to
        [commuters|prisoners]; forage [mushrooms|samphire|elderflower] at low tide; label
        [allergens|salt] in large print; teach [carers|students] to [joint a chicken|cook
        pulses]; age [cheddar|ham] in a [railway tunnel|bank vault]; cut [sugar|food miles];
        mill [spelt|peas] on site; feed [night workers|a whole street]; rename [the
        special|every pie]; salt cod the old way""",
    sites="""the bakehouse; the back kitchen; a stall by the bridge; the maturing cellar; the
        tap room; the canteen hatch; the fish counter""",
    problems="""rising flour prices; a bad oyster; kitchen burnout; greasy drains; a
        [bitter|cold] review; unpaid suppliers; mouldy barrels; staff shortages; mislabelled
        meat; power cuts; a rent rise""",
    results="""the queue reached the [church|bus stop] by eight; plates came back
        [clean|licked]; waste fell by [a bucket|half]; the stall sold out before [noon|the
        rain]; an old recipe was back on the menu; the inspector gave it [five|four] stars;
        regulars brought their [own mugs|cousins]; the cellar smelt of [apples|walnuts] again;
        nobody asked for salt""",
    figures="""a loaf costs {#1.80-6.40} pounds; the oven reaches {#230-480} degrees; the
        kitchen serves {#60-1900} covers a week; the cheese ripens for {#6-110} weeks; margins
        are about {#3-14} per cent; the ale is {#3.2-8.9} per cent alcohol; the market has
        {#14-220} stalls; {#5-70} kilos of peelings go to the pigs""",
    views="""a sauce remembers every [shortcut|insult]; hungry people are the only
        [critics|guests] I trust; bread is flour, water and [waiting|nerve]; nobody was ever
        made happy by a [foam|smear]; the secret ingredient is [turning up|washing up]; good
        butter forgives bad [weather|manners]; I have burnt {#2-30} thousand onions to get here;
        if the fish smells of fish, go [home|vegetarian]; a menu should fit on a
        [postcard|plate]""",
    scenes="""flour lay over everything, including the [cat|telephone]; a pan flared, and the
        whole kitchen took [one step|half a step] back; the bell on the door had lost its
        [clapper|patience] years ago; someone was slicing [leeks|ginger] so thin that you could
        read through it; barrels ticked and hissed in the [cellar|half-dark]; the blackboard
        offered {#3-9} soups, all of them [green|crossed out]; a crate of [quinces|crabs]
        blocked the back stairs""",
)

RIVERS = topic(
    "Environment",
    " ",
    things="""salmon runs; flood barriers; otters; peat bogs; sewage outfalls; beaver dams; bird
        counts; river gauges; woodland paths; air monitors; rain gardens; barn owls; sand dunes;
        storm warnings; heat waves; mussel beds; plastic pellets; wild orchids; fish ladders;
        fire breaks; wetland reserves; water meters; ash trees; glow-worms; coastal cliffs;
        nesting boxes; reservoirs; moths""",
    actors="""river warden; ornithologist; forecaster; forester; hydrologist; park ranger; water
        bailiff; botanist; angler""",
    crowds="""anglers; walkers; birdwatchers; volunteers; rangers; downstream residents;
        canoeists""",
    offices="Rivers Trust; Weather Office; Wildlife Trust; Flood Forum; National Park",
    firms="Water; Environmental; Forestry; Reservoirs; Instruments",
    actions="""remove [a weir|concrete banks|rotting sluices]; release [water voles|young
        sturgeon|beavers] into [the headwaters|a fenced valley]; rewet [the bog|grazing marsh];
        ring [ospreys|warblers] at dawn; test [rainwater|sediment] for [nitrate|microplastics];
        fell [diseased ash|spruce] along the [bank|railway]; warn [campers|mill owners] by
        siren; plant [alder|reeds|eelgrass]; fine [the water company|fly-tippers]; dim [street
        lamps|the stadium] for bats; count [moths|mayfly|footprints]; build [fish passes|toad
        tunnels]; sandbag [the library|low cottages]; burn [heather|brash] in strips""",
    sites="""the gauging station; the bird hide; the flood gate; the estuary; a lay-by above the
        gorge; the hatchery; the fire tower""",
    problems="""raw sewage; low flows; ash dieback; blue-green algae; illegal dumping; a
        [spring|tidal] surge; signal crayfish; peat fires; eroding banks; light pollution; a
        late cold snap""",
    results="""salmon reached the [upper|mill] pool again; the town stayed dry; kingfishers
        nested [below the bridge|by the outfall]; the water ran [clear|cold] for the first time
        in years; dragonflies appeared within [weeks|a summer]; the bog held back the
        [flood|fire]; swimmers returned without [rashes|complaints]; the owls raised {#3-6}
        chicks; the warning came an hour earlier""",
    figures="""the river peaked at {#1.8-7.4} metres; {#40-5200} pairs of birds bred; rainfall
        came to {#22-240} millimetres; oxygen rose to {#6.1-11.8} milligrams a litre; the
        reserve covers {#30-4800} hectares; gusts hit {#48-101} miles an hour; volunteers pulled
        out {#90-8600} bags of litter; the temperature reached {#27-39} degrees""",
    views="""a river is a [road|memory] that moves; you do not restore a bog, you stop
        [draining|annoying] it; birds vote with their [wings|silence]; rain is only news when it
        is [late|sideways]; every pipe ends in somebody's [breakfast|swim]; I have measured this
        stream for {#8-33} winters; the forecast is never wrong, only [early|elsewhere]; leave a
        mess for the beetles; the beaver works for [nothing|willow]""",
    scenes="""mist lay in the valley as flat as [milk|a tablecloth]; something large and
        [brown|sleek] slid off the bank and left a ring on the water; the gauge board was green
        with weed up to the {#2-6} metre mark; a heron stood on the [shopping trolley|sluice],
        perfectly still; sandbags were passed from hand to hand past the [bakery|war memorial];
        the moth trap glowed in the wood like a [small tent|lost moon]; hail bounced off the
        warden's hat and into her [tea|notebook]""",
)
