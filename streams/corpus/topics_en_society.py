"""English topics of public life: schools, hospitals, housing, railways."""

from __future__ import annotations

from streams.corpus.topics import topic

SCHOOLS = topic(
    "Schools",
    " ",
    things="""reading clubs; spelling tests; science labs; school buses; lunch menus; homework
        diaries; sixth-form places; music lessons; exam papers; playgrounds; library cards;
        parents' evenings; classroom assistants; bursaries; apprenticeships; catchment areas;
        timetables; uniforms; report cards; nursery places; chess tournaments; language
        exchanges; crossing patrols; term dates; swimming lessons; maths worksheets; governors'
        minutes; school plays""",
    actors="""head teacher; chemistry teacher; school librarian; caretaker; governor; deputy
        head; nursery nurse; lollipop lady; exams officer""",
    crowds="""pupils; parents; younger teachers; school leavers; governors; bus drivers;
        teaching staff""",
    offices="""Education Committee; Grammar School; Primary School; Technical College; Schools
        Trust; Sixth Form College""",
    firms="Textbooks; Tutoring; Uniforms; Learning Systems; Coaches",
    actions="""move [the spelling test|parents' evening|registration] to [Friday|the afternoon];
        open [the library|the art room|the gym] before breakfast; replace [the boiler|forty
        desks]; offer [Polish|coding|pottery|Latin] to [the lower school|every year group];
        train [older pupils|volunteers] as [reading mentors|first aiders]; share one bus between
        villages; scrap [detention|Saturday classes|printed reports]; stage [a musical|a mock
        trial]; plant [an orchard|a bean garden] behind [the canteen|the bicycle shed]; test
        [eyesight|hearing] every autumn; publish [admission rules|class sizes]; invite
        [grandparents|local bakers] into lessons; repair [the roof|the climbing frame]; shorten
        [the lunch hour|the waiting list]; translate letters home into [five|nine] languages""",
    sites="""the assembly hall; the school gate; the chemistry lab; the canteen; the staff room;
        the upper playground; a Portakabin classroom; the drama studio""",
    problems="""a shortage of physics teachers; falling rolls; leaking roofs; unpaid
        [lunch|trip] money; late buses; crowded corridors; poor [handwriting|attendance]; a
        dispute over [mobile phones|skirts]; long waiting lists; exam anxiety; a shrinking
        budget""",
    results="""attendance rose to a [five-year|record] high; fewer children [arrived
        late|skipped breakfast]; the library lent twice as many books; two [retired|former]
        teachers came back; parents stopped [queueing at the gate|writing angry letters]; the
        choir doubled in size; reading ages [climbed|improved] by several months; nobody failed
        the resit; the chess team beat three larger schools""",
    figures="""the school roll stood at {#140-1900}; {#58-97} per cent of leavers found a place;
        the average class held {#19-33} children; the library bought {#200-6400} books; each
        lunch cost {#1.40-3.80} pounds to cook; {#12-160} pupils joined the breakfast club; the
        bus covered {#18-110} miles a day; absences fell by {#3-31} per cent""",
    views="""a child who [asks why|argues] has already started learning; you cannot teach a
        hungry class; marks tell you where a pupil was, not where [she is going|he could get
        to]; we stopped counting [minutes|worksheets] and started counting questions; the quiet
        ones at the back need us most; nobody remembers the [worksheet|timetable], they remember
        the [trip|explosion]; I have taught for {#11-38} years and still get nervous in
        September; good schools are built out of [patience and glue|small habits]""",
    scenes="""a [trombone|broken recorder] could be heard through two closed doors; somebody had
        drawn a [whale|dragon] along the whole of the corridor wall; the bell rang, and
        {#60-400} pairs of shoes came down the stairs at once; on the windowsill stood a row of
        [beans|cress] in yoghurt pots, each with a name; a small boy was explaining
        [gravity|volcanoes] to his [lunchbox|sister]; the caretaker knew every child by
        [name|nickname] and most of their [dogs|grandmothers]; chalk dust still hung in the
        light long after the lesson had ended""",
)

HOSPITALS = topic(
    "Health",
    " ",
    things="""hearing aids; flu clinics; hip replacements; night shifts; blood donors; waiting
        times; ambulance crews; prescriptions; maternity beds; dental check-ups; walking frames;
        X-ray machines; surgery rotas; vaccination cards; outpatient letters; allergy tests;
        home visits; diabetic diets; stroke units; wheelchairs; discharge forms; insulin pumps;
        cataract operations; kidney machines; counselling sessions; ward rounds; pharmacy
        queues; health visitors""",
    actors="""ward sister; consultant; pharmacist; midwife; paramedic; family doctor;
        physiotherapist; hospital porter; radiographer""",
    crowds="patients; nurses; volunteers; midwives; older patients; carers; junior doctors",
    offices="""General Hospital; Health Board; Children's Hospital; Ambulance Service; Cottage
        Hospital; Medical Centre""",
    firms="Pharmaceuticals; Diagnostics; Medical Supplies; Care Homes; Prosthetics",
    actions="""open [a walk-in|an evening|a Sunday] clinic for [asthma|back pain|migraine];
        telephone [patients|carers] the day before [surgery|the scan]; merge [two wards|the
        booking desks]; train [porters|receptionists] to spot [sepsis|a stroke]; deliver
        [dialysis|chemotherapy] at home; screen [farm workers|smokers|bus drivers] for [skin
        cancer|high blood pressure]; refit [the operating theatre|the birthing pool]; stock
        [antidotes|plasma] on every ambulance; trim [paperwork|the drug bill]; hire [bilingual
        nurses|a music therapist]; post [blood results|waiting times] online; carry
        [oxygen|defibrillators] on [bicycles|the ferry]; measure [pulse and breathing|blood
        sugar] by wristband; audit every [fall|missed dose]""",
    sites="""the fracture clinic; ward nine; the hospital pharmacy; the ambulance bay; a
        converted chapel; the day-surgery unit; the maternity wing; the dispensary hatch""",
    problems="""a shortage of [anaesthetists|beds]; cancelled operations; hospital infections;
        winter flu; broken lifts; lost [records|samples]; rising drug prices; long drives to the
        nearest clinic; tired staff; missed appointments; a faulty [scanner|steriliser]""",
    results="""waiting times fell by [a third|nearly half]; [fewer|no] operations were
        cancelled; patients went home [two days|a day] sooner; infections dropped to their
        lowest since records began; complaints turned into [thank-you cards|biscuits]; falls on
        the ward became rare; most people took their tablets on time; three nurses withdrew
        their resignations; the helpline was answered within a minute""",
    figures="""the unit treated {#300-9800} people; the median wait was {#9-46} days; {#81-99}
        per cent of babies were vaccinated; a scan now costs {#85-460} pounds; ambulances
        arrived in {#6-19} minutes on average; the pharmacy filled {#90-2400} prescriptions a
        day; readmissions fell to {#4.1-12.9} per cent; surgeons replaced {#40-1300} hips""",
    views="""nobody reads a leaflet with a [broken wrist|fever]; the best medicine on this ward
        is [a chair by the bed|an open window]; you learn to listen to the [cough|silence]
        before the complaint; a rota is a promise, and we kept breaking it; I trained for
        {#7-14} years and the most useful thing I learned was [to sit down|to wait]; people do
        not miss appointments, [buses|letters] do; if the porter is worried, then so am I;
        healing is mostly [boring|routine], and that is good""",
    scenes="""somewhere behind the curtain a [monitor|pump] beeped twice and fell silent; an old
        man unwrapped his tablets from a [handkerchief|tobacco tin], one by one; the nurse
        warmed the stethoscope [in her palm|under her arm] before she used it; in the waiting
        room a toddler had lined up {#6-30} [plastic cups|magazines] along the floor; two
        porters raced a bed down the corridor, [wheels rattling|whistling]; rain drummed on the
        ambulance roof while the crew filled in their [forms|crossword]; a handwritten notice
        above the sink said [please knock|wash again]""",
)

HOUSING = topic(
    "Housing",
    " ",
    things="""rents; council flats; mortgage offers; loft conversions; service charges; tower
        blocks; building permits; tenancy deposits; planning appeals; damp walls; cladding
        panels; parking bays; stair lifts; estate agents' boards; building regulations;
        leaseholds; terraced houses; brownfield sites; bay windows; heat pumps; fire doors;
        first-time buyers; land prices; allotment gardens; slate roofs; eviction notices; show
        homes; garden walls""",
    actors="""landlord; site foreman; surveyor; letting agent; tenant; town planner; bricklayer;
        housing officer; conveyancer""",
    crowds="""tenants; first-time buyers; leaseholders; builders; neighbours; young families;
        pensioners""",
    offices="""Housing Association; Planning Department; Land Registry; Borough Council; Rent
        Tribunal""",
    firms="Homes; Estates; Builders; Property Management; Architects; Roofing",
    actions="""convert [the mill|an empty bank|the old barracks] into [studio flats|almshouses];
        freeze [rents|ground rent|service charges]; strip [the cladding|asbestos] from [the
        tower|block C]; license [every landlord|holiday lets]; insulate [lofts|cavity walls|the
        stairwell]; fit [sprinklers|smoke alarms|handrails]; refund [deposits|overpaid fees];
        build [forty|sixty|a hundred] homes on [the gasworks|the cattle market]; replace [lead
        pipes|sash windows|the lift]; settle [boundary disputes|arrears] by mediation; inspect
        [cellars|balconies|gas boilers]; demolish [the car park|two shops]; reserve
        [ground-floor flats|a quarter of the plots] for [key workers|local people]; map every
        [vacant house|leaking gutter]""",
    sites="""the show flat; the ninth floor; the rent office; a muddy building site; the
        tribunal room; the back alley; the old gasworks; the community laundry""",
    problems="""black mould; rising rents; a shortage of [bricklayers|roof tiles]; unsafe
        cladding; slow conveyancing; noisy [neighbours|drilling]; absent landlords; subsidence;
        flooded cellars; unpaid service charges; a planning objection""",
    results="""{#12-90} families moved in before [Christmas|the summer]; heating bills
        [halved|fell by a quarter]; the lift worked for a whole month; rents [steadied|stopped
        climbing]; the tribunal ruled for the tenants; neighbours who had [sued|ignored] each
        other shared a skip; empty windows filled with curtains; the damp [retreated|dried out]
        by spring; two first-time buyers were offered keys""",
    figures="""the average rent was {#520-2100} pounds a month; {#40-960} homes stood empty; the
        block has {#4-23} storeys; the waiting list grew to {#300-8700} households; builders
        laid {#6000-88000} bricks; the scheme covers {#2-46} acres; arrears fell to {#1.2-7.9}
        per cent; a typical deposit was {#4800-62000} pounds""",
    views="""a home is not [a spreadsheet|an investment], it is where you keep your kettle; you
        can hear the whole street through [that wall|this ceiling]; we asked for a lift and got
        a [survey|leaflet]; the cheapest repair is the one you do [in time|before the rain];
        nobody ever regretted [insulation|a bigger kitchen]; I have rented for {#9-31} years and
        moved {#5-14} times; good bricks outlive bad plans; a garden this size feeds [a
        family|two rabbits]""",
    scenes="""a bucket stood on every [second|third] stair to catch the drips; the estate
        agent's shoes sank slowly into the [clay|turf] as he spoke; scaffolding poles rang like
        [bells|organ pipes] as the crew unloaded them; someone had grown tomatoes in a
        [bathtub|filing cabinet] by the bins; through the letter box came the smell of [fresh
        paint|frying onions]; a child's height was pencilled on the door frame, year by year, up
        to [2009|the light switch]; the key turned at the {#2-5}th attempt, and the hall light
        came on""",
)

RAILWAYS = topic(
    "Railways",
    " ",
    things="""branch lines; signal boxes; season tickets; sleeper trains; level crossings;
        footbridges; guards' whistles; freight wagons; platform clocks; rail replacement buses;
        timetable changes; overhead wires; viaducts; ticket machines; commuter trains; dining
        cars; track circuits; tram stops; bicycle racks; tunnel linings; station cafes; ballast
        trains; points heaters; lost umbrellas; wheel flats; fare zones; conductors; shunting
        yards""",
    actors="""train driver; signaller; station master; track engineer; guard; timetable planner;
        tram conductor; bridge inspector; ticket clerk""",
    crowds="""commuters; drivers; cyclists; track workers; season-ticket holders; night-shift
        workers""",
    offices="""Transport Authority; Rail Users' Committee; Harbour Railway; Tramways Board;
        Highways Department""",
    firms="Rolling Stock; Railways; Signals; Civil Engineering; Coachways",
    actions="""reopen [the branch line|platform four|the halt] after [decades|a long closure];
        rewire [the junction|a signal box]; lengthen [platforms|the loop] for
        [eight-car|freight] trains; cap [day fares|parking charges]; weld [rails|girders]
        overnight; run [a later|an extra] train on Saturdays; paint [the viaduct|the footbridge]
        green; grind [corrugated rails|flat wheels]; drain [the cutting|the tunnel]; hand [the
        ticket office|the waiting room] to [volunteers|a baker]; count [passengers|wagons] by
        camera; retime [the first tram|connecting buses]; salt [steps|ramps] before dawn; borrow
        [two locomotives|a diesel unit] from a museum""",
    sites="""the control room; platform two; the engine shed; the tunnel mouth; the tram depot;
        the level crossing; the station buffet; the viaduct parapet""",
    problems="""leaves on the line; failed signals; a landslip; overcrowding; stolen copper
        cable; cracked [girders|axles]; missed connections; a shortage of drivers; faulty doors;
        frozen points; confusing fares""",
    results="""trains ran [on time|to the minute] for [eleven|six] weeks; commuters got their
        seats back; the last bus waited for the last train; freight left the [ring road|high
        street]; the journey became {#6-25} minutes shorter; complaints about [heating|doors]
        fell by half; the station won a prize for its [roses|tea]; ridership passed its old
        peak; the crossing has had no accident since""",
    figures="""the line carried {#0.3-14.0} million passengers; trains ran every {#6-40}
        minutes; punctuality reached {#86-98} per cent; the viaduct has {#7-31} arches; the
        speed limit rose to {#45-125} miles an hour; a day ticket cost {#3.20-18.50} pounds;
        engineers replaced {#2-38} miles of rail; the oldest signal dated from {#1878-1936}""",
    views="""a timetable is a [treaty|recipe] between people who never meet; rails talk, if you
        put your [boot|ear] to them; people forgive a late train, they do not forgive [silence|a
        shrug]; the railway was here before the [town|motorway]; I set the points by hand for
        {#14-37} years; nobody thanks you for the [accident|landslip] that did not happen; every
        minute in the timetable was [fought over|paid for]; empty carriages are a kind of
        forecast""",
    scenes="""frost had drawn [ferns|feathers] on the inside of the carriage windows; the signal
        dropped with a clank, and [rooks|pigeons] rose from the cutting; a man in a
        [raincoat|bow tie] was reading the timetable aloud to his dog; steam from the tea urn
        fogged the [booking-hall|buffet] glass; the track gang walked in single file, their
        lamps [swinging|dimmed]; on the bench lay a single glove and a ticket to [the
        coast|nowhere in particular]; somewhere under the bridge a busker played the same
        {#4-12} bars""",
)
