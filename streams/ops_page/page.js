// The ops page: polls /api/status every two seconds and draws it. All texts are untrusted: they go
// into the page only as textContent, never as markup.

const POLL_MS = 2000;
const ANSWER_MS = 8000;
const CHECK_MS = 30000; // the worker itself waits for its turn and for the index, and then says why
const TOKEN = "firstseen.token";
const byId = (id) => document.getElementById(id);

// ---------------------------------------------------------------- elements

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const whole = new Intl.NumberFormat("en");
const counted = (count, one, more = `${one}s`) => `${whole.format(count)} ${count === 1 ? one : more}`;
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; unit += 1) count /= 1024;
  return `${short.format(count)} ${units[unit]}`;
}

const LONGEST_SECONDS = 1800; // the last bound of the histogram: beyond it nothing can be distinguished

function seconds(value) {
  if (value === null) return "–";
  if (value >= LONGEST_SECONDS) return "over 30 min";
  return value < 1 ? `${short.format(value * 1000)} ms` : `${short.format(value)} s`;
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const calendar = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

// Time of day for today, else with the date; the tooltip has both.
function when(iso) {
  const at = new Date(iso);
  const today = at.toDateString() === new Date().toDateString();
  return el("time", { datetime: iso, title: iso }, (today ? clock : calendar).format(at));
}

const DUPLICATES = ["near_duplicate", "exact_duplicate"];
const sum = (values) => values.reduce((total, value) => total + value, 0);
const totalOf = (documents) => sum(Object.values(documents));
const repeatsOf = (documents) => sum(DUPLICATES.map((name) => documents[name] ?? 0));
const shareOf = (documents) => (totalOf(documents) ? percent.format(repeatsOf(documents) / totalOf(documents)) : "–");

const place = (at) => `${at.topic}/${at.partition}@${at.offset}`;

// ---------------------------------------------------------------- asking

class Trouble extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}, milliseconds = ANSWER_MS) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const request = { cache: "no-store", ...options, headers, signal: AbortSignal.timeout(milliseconds) };
  let answer;
  try {
    answer = await fetch(path, request);
  } catch {
    throw new Trouble("no answer from the worker", 0);
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  const message = body?.error?.message ?? `the worker answered ${answer.status}`;
  if (answer.status === 401) showAccess(token ? "This token is wrong." : "");
  throw new Trouble(message, answer.status);
}

// The token may come after #, which browsers never send; then remove it from the address bar. It has
// no blanks, but may have a plus sign, for which URLSearchParams returns a blank.
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B")).get("token");
  if (token) {
    sessionStorage.setItem(TOKEN, token);
    history.replaceState(null, "", location.pathname);
  }
}

// Without a token nothing is asked, so what is there is empty or old.
function showContent(shown) {
  byId("main").hidden = !shown;
  document.querySelector("nav").hidden = !shown;
}

function showAccess(trouble) {
  sessionStorage.removeItem(TOKEN);
  byId("access-trouble").textContent = trouble;
  showContent(false);
  if (byId("access").hidden) {
    byId("access").hidden = false;
    byId("token").focus();
  }
}

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, byId("token").value.trim());
  byId("token").value = "";
  byId("access").hidden = true;
  byId("access-trouble").textContent = "";
  poll();
});

// ---------------------------------------------------------------- status

function setState(kind, text) {
  const state = byId("state");
  if (state.textContent !== text) state.textContent = text;
  state.dataset.state = kind;
}

// Mark old figures as old, because they look like present ones.
let answeredAt = null;

function drawStale(message) {
  const note = byId("stale");
  document.body.classList.toggle("stale", Boolean(message && answeredAt));
  note.hidden = !(message && answeredAt);
  if (note.hidden) return;
  const said = `No answer from this worker. All figures below are old, from ${clock.format(answeredAt)}.`;
  if (note.textContent !== said) note.textContent = said;
}

function drawState(status) {
  if (status.why_dead) setState("bad", status.why_dead);
  else if (!status.broker_up) setState("bad", "the broker does not answer");
  else if (status.why_not_ready) setState("wait", status.why_not_ready);
  else if (status.why_waiting) setState("wait", status.why_waiting);
  else setState("good", "ready");
}

function tile(name, value, note) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value, note ? el("small", {}, note) : null));
}

function latest(rates) {
  const last = rates.slice(-5);
  return last.length ? sum(last) / last.length : 0;
}

function drawTiles(status) {
  const counts = status.documents;
  const behind = sum(status.lag.map((each) => each.messages));
  const add = (name) => sum(status.shards.map((each) => each[name]));
  const { latency, ordering, in_flight: flight, process } = status;
  const cores = process.cpu_cores;
  byId("tiles").replaceChildren(
    tile("Throughput", `${short.format(latest(status.throughput.documents))}/s`, "documents, last 10 s"),
    tile("Duplicates", shareOf(counts), `${whole.format(repeatsOf(counts))} of ${whole.format(totalOf(counts))}`),
    tile("Lag", whole.format(behind), behind === 1 ? "raw record behind" : "raw records behind"),
    tile("Latency", seconds(latency.p50), `half; 95\u00a0%: ${seconds(latency.p95)}, 99\u00a0%: ${seconds(latency.p99)}`),
    tile("Index", whole.format(add("entries")), `documents here, ${bytes(add("store_bytes"))}`),
    tile("In flight", whole.format(flight.documents), `documents, ${bytes(flight.bytes)}`),
    tile("Undecided", whole.format(ordering.undecided_documents), `oldest: ${age(ordering)}`),
    tile("CPU", cores === null ? "–" : short.format(cores), "cores, last minute"),
    tile("Memory", bytes(process.memory_bytes), "of this process"),
    tile("Disk", bytes(status.disk_free_bytes), `free of ${bytes(status.disk_size_bytes)}`),
  );
}

function drawTroubles({ errors, skipped, rebalances, transactions }) {
  const failed = Object.entries(errors).map(([where, count]) => `${where.replace("/", ": ")} ${whole.format(count)}`);
  const { committed = 0, ...others } = transactions;
  const ended = Object.entries(others).filter(([, count]) => count)
    .map(([outcome, count]) => `${whole.format(count)} ${outcome}`);
  byId("trouble-facts").replaceChildren(...factPairs([
    ["errors", failed.join(", ") || "none"],
    ["rebalances", counted(rebalances, "assignment of partitions", "assignments of partitions")],
    ["transactions", [`${whole.format(committed)} committed`, ...ended].join(", ")],
    ["skipped", skipped ? `${counted(skipped, "raw record")} deleted before they were read` : "none"],
  ]));
}

// ---------------------------------------------------------------- the group

// Link only web addresses, because the text comes from another process.
function workerName(worker) {
  const safe = /^https?:\/\//.test(worker.page ?? "");
  const name = safe && !worker.is_this ? el("a", { href: worker.page }, worker.name) : el("strong", {}, worker.name);
  return el("span", {}, name,
    worker.is_this ? el("span", { class: "badge" }, "this page") : null,
    worker.leads ? el("span", { class: "badge leads" }, "leads") : null);
}

function workerRow(worker) {
  const { documents, partitions } = worker;
  const figure = (count) => (documents ? whole.format(count) : "–");
  return el("tr", {},
    cell("", workerName(worker), true),
    cell("host", worker.host || "–", true),
    cell("partitions", partitions.length ? partitions.join(" ") : "none"),
    cell("outputs", figure(totalOf(documents ?? {}))),
    cell("duplicates", documents ? shareOf(documents) : "–"),
    cell("dead letters", figure(documents?.dead_letter ?? 0)),
    cell("last commit", worker.reported ? when(worker.reported) : "none yet"));
}

function drawGroup(group) {
  byId("workers").hidden = !group;
  byId("group-tiles").hidden = !group;
  if (!group) {
    byId("group-note").textContent = "loading from the broker …";
    return;
  }
  const { documents, workers, lag } = group;
  const owned = sum(workers.map((each) => each.partitions.length));
  const unowned = group.partitions - owned;
  byId("group-tiles").replaceChildren(
    tile("Workers", whole.format(workers.length), workers.some((each) => each.leads) ? "one leads" : "leader unknown"),
    tile("Outputs", whole.format(totalOf(documents)), "since each one started"),
    tile("Unique", whole.format((documents.unique ?? 0) + (documents.undecidable ?? 0)), "output unchanged"),
    tile("Duplicates", shareOf(documents), whole.format(repeatsOf(documents))),
    tile("Dead letters", whole.format(documents.dead_letter ?? 0), "could not be read"),
    tile("Lag", lag === null ? "–" : whole.format(lag), `of ${counted(group.partitions, "partition")}`),
  );
  const notes = [`From the broker, ${Math.round(group.age_seconds)} s ago. The figures of other workers are those of their last commit.`];
  if (!group.described) notes.push("The broker does not list the members: some of these may have left.");
  if (unowned > 0) notes.push(`${counted(unowned, "partition belongs", "partitions belong")} to no worker now.`);
  byId("group-note").textContent = notes.join(" ");
  byId("worker-rows").replaceChildren(...workers.map(workerRow));
}

function age({ undecided_documents: documents, undecided_oldest_seconds: oldest }) {
  return documents ? seconds(oldest) : "–";
}

function drawThroughput({ documents, duplicates, sample_seconds: every }) {
  const highest = Math.max(1, ...documents);
  const width = Math.max(1, documents.length - 1);
  const points = (values) => values.map((value, at) => `${at},${100 - (98 * value) / highest}`);
  const line = points(documents).join(" ");
  byId("throughput").replaceChildren(
    el("span", { class: "highest" }, `${short.format(highest)}/s`),
    svg("svg", { viewBox: `0 0 ${width} 100`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("polygon", { class: "area", points: `0,100 ${line} ${documents.length - 1},100` }),
      svg("polyline", { class: "line-1", points: line }),
      svg("polyline", { class: "line-2", points: points(duplicates).join(" ") })),
  );
  const minutes = (documents.length * every) / 60;
  byId("throughput-from").textContent =
    minutes >= 1 ? `${short.format(minutes)} min ago` : `${Math.round(minutes * 60)} s ago`;
  byId("throughput").setAttribute("aria-label",
    `now ${short.format(latest(documents))} documents per second, ` +
    `${short.format(latest(duplicates))} of them duplicates; at most ${short.format(highest)} per second`);
}

// Each bar shows a part of its own total.
function bars(target, rows) {
  byId(target).replaceChildren(...rows.flatMap((row) => {
    const filled = el("span");
    const part = row.whole ? Math.min(1, row.count / row.whole) : 0;
    filled.style.width = `${100 * part}%`;
    return [
      el("dt", {}, row.name),
      el("dd", { class: `bar ${row.kind ?? ""}`, "aria-hidden": "true" }, filled),
      el("dd", {}, row.text),
    ];
  }));
}

function drawVerdicts(documents) {
  const total = totalOf(documents);
  bars("verdicts", Object.entries(documents).map(([verdict, count]) => ({
    name: verdict.replaceAll("_", " "), count, whole: total, text: whole.format(count),
    kind: DUPLICATES.includes(verdict) ? "second" : "",
  })));
}

function drawCandidates({ per_lookup: mean, fullest_bucket: fullest, alert_above: limit }) {
  const kind = (value) => (value > limit ? "over" : "");
  bars("candidates", [
    { name: "candidates, on average", count: mean ?? 0, whole: limit, kind: kind(mean),
      text: mean === null ? "none read" : `${short.format(mean)} of ${whole.format(limit)}` },
    { name: "fullest bucket", count: fullest ?? 0, whole: limit, kind: kind(fullest),
      text: fullest === null ? "none read" : `${whole.format(fullest)} of ${whole.format(limit)}` },
  ]);
}

function drawDistances({ bits, near, counts, beyond }) {
  const highest = Math.max(1, ...counts);
  byId("distances").replaceChildren(
    el("b", { class: "highest" }, whole.format(Math.max(0, ...counts))),
    ...counts.map((count, distance) => {
      const column = el("i", { class: count ? null : "none", title: `${distance} bits: ${whole.format(count)}` });
      column.style.height = `${(84 * count) / highest}%`;
      return column;
    }));
  const said = counts.map((count, distance) => [distance, count]).filter(([, count]) => count)
    .map(([distance, count]) => `${distance} bits: ${count}`);
  byId("distances").setAttribute("aria-label", said.length ? said.join(", ") : "no duplicates yet");
  byId("distances-half").textContent = near > 3 ? String(Math.round(near / 2)) : "";
  byId("distances-limit").textContent = `${near}, the limit`;
  const total = sum(counts) + beyond;
  byId("distances-note").textContent =
    `${counted(total, "duplicate")} since the start. Near means: at most ${near} of ${bits} bits differ.` +
    (beyond ? ` ${counted(beyond, "exact duplicate")} with a larger distance: the same content.` : "");
}

function cell(label, value, wide = false) {
  return el("td", { "data-label": label, class: wide ? "wide" : null }, value);
}

function stateOf(shard) {
  if (shard.recovered === null) return shard.state;
  const done = percent.format(shard.recovered);
  return el("span", {}, `${shard.state} `,
    el("progress", { value: shard.recovered, max: 1, "aria-label": `shard ${shard.partition}, read` }),
    ` ${done}, ${whole.format(shard.remaining)} records left`);
}

function drawLog({ ordering }) {
  const { leads, leader, log_position: position, log_end: end, reports_missing: missing } = ordering;
  const behind = Math.max(0, end - position);
  byId("log-facts").replaceChildren(...factPairs([
    ["leader", leads ? "this worker" : leader ?? "unknown"],
    ["read up to", `${whole.format(position)}, ${counted(behind, "record behind", "records behind")}`],
    ["undecided", `${counted(ordering.undecided_documents, "document")}, oldest ${age(ordering)}`],
    ["reports missing", leads ? (missing.map((shard) => `shard ${shard}`).join(", ") || "none") : null],
    ["packets skipped", whole.format(ordering.packets_skipped)],
    ["control records refused", whole.format(ordering.control_records_refused)],
    ["foreign records", whole.format(ordering.foreign_records)],
  ]));
}

function drawShards(status) {
  byId("shard-rows").replaceChildren(...status.shards.map((shard) => el("tr", {},
    cell("shard", String(shard.partition)),
    cell("", stateOf(shard)),
    cell("entries", whole.format(shard.entries)),
    cell("in flight", whole.format(shard.waiting)),
    cell("on disk", bytes(shard.store_bytes)),
    cell("next raw offset", whole.format(shard.next_offset)),
    cell("needs the log from", whole.format(shard.log_position)))));
  byId("shards-title").textContent = `Shards of this worker: ${status.shards.length}`;
  byId("lag-rows").replaceChildren(...status.lag.map((each) => el("tr", {},
    cell("", each.topic, true), cell("partition", String(each.partition)),
    cell("behind", whole.format(each.messages)))));
}

function draw(status) {
  const { worker } = status;
  document.title = `${worker.host}: ${status.application_id} – Firstseen`;
  byId("application").textContent = status.application_id;
  byId("about").textContent = `This page: worker ${worker.name} on ${worker.host}, group ${status.application_id}; ` +
    `profile ${status.profile}, ${status.delivery.replaceAll("_", " ")}, version ${status.version}`;
  drawState(status);
  drawGroup(status.group);
  drawTiles(status);
  drawThroughput(status.throughput);
  drawVerdicts(status.documents);
  drawTroubles(status.troubles);
  drawDistances(status.distances);
  drawCandidates(status.candidates);
  drawLog(status);
  drawShards(status);
  byId("footer").textContent =
    `index ${status.index}; up for ${whole.format(Math.round(status.uptime_seconds / 60))} min; texts in memory: ` +
    `${whole.format(status.recent.documents)}, ${bytes(status.recent.size_bytes)} of ${bytes(status.recent.limit_bytes)}`;
}

// ---------------------------------------------------------------- duplicates

const LISTED_LIMIT = 10;
let listed = 0;

function passages(pieces, only) {
  return el("div", { class: "text", dir: "auto", tabindex: "0", role: "group" },
    ...pieces.map(([kind, text]) => {
      if (kind === "only") return el(only, {}, text);
      return kind === "folded" ? el("span", { class: "folded" }, text) : document.createTextNode(text);
    }));
}

function side(title, pieces, only) {
  const heading = el("h4", {}, title);
  if (!pieces.length) return el("div", {}, heading, el("p", { class: "quiet" }, "its text is not held here"));
  const text = passages(pieces, only);
  text.setAttribute("aria-label", title);
  return el("div", {}, heading, text);
}

function factPairs(pairs) {
  return pairs.filter(([, value]) => value !== null)
    .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]);
}

const facts = (pairs) => el("dl", { class: "facts" }, ...factPairs(pairs));

function factsOf(each) {
  return [
    ["distance", `${each.distance} of ${each.bits} bits`],
    ["first shared bucket", each.block],
    ["agreement", each.agreement === null ? null : each.agreement.toFixed(3)],
  ];
}

async function openDuplicate(details, number) {
  const inside = details.querySelector(".inside");
  if (inside.childElementCount) return;
  try {
    const texts = await ask(`/api/duplicates/${number}`);
    const { duplicate } = texts;
    inside.replaceChildren(
      facts([...factsOf(duplicate), ["this", place(duplicate.source)],
        ["original", place(duplicate.original)], ["decided", duplicate.decided]]),
      el("div", { class: "sides" },
        side(`Original: ${duplicate.original_id}`, texts.original_text, "del"),
        side(`This: ${duplicate.id}`, texts.text, "ins")),
      texts.missing ? el("p", { class: "quiet" }, `${texts.missing}.`) : "",
    );
  } catch (error) {
    inside.replaceChildren(el("p", { class: "trouble" }, error.message));
  }
}

function duplicateRow(each) {
  const details = el("details", { "data-number": each.number },
    el("summary", {},
      el("strong", {}, each.id), el("span", { class: "arrow" }, " repeats "), el("strong", {}, each.original_id),
      el("span", { class: "at quiet" }, when(each.decided)),
      each.excerpt ? el("span", { class: "excerpt", dir: "auto" }, each.excerpt) : null,
      el("span", { class: "why" }, `${each.method}: ${each.reason}`)),
    el("div", { class: "inside" }));
  details.addEventListener("toggle", () => { if (details.open) openDuplicate(details, each.number); });
  return details;
}

async function listDuplicates(count) {
  const { duplicates } = await ask("/api/duplicates");
  byId("newer").hidden = true;
  listed = duplicates.length ? duplicates[0].number : 0;
  byId("duplicate-list").replaceChildren(...duplicates.slice(0, LISTED_LIMIT).map(duplicateRow));
  const shown = Math.min(LISTED_LIMIT, duplicates.length);
  byId("duplicates-note").textContent = count
    ? `the last ${shown} of ${whole.format(count)}; open one to see both texts` : "none yet";
}

// Do not move the list under a reader: announce new duplicates while one is open or focused.
async function followDuplicates(count) {
  if (count === listed) return;
  const list = byId("duplicate-list");
  const isRead = list.querySelector("details[open]") || list.contains(document.activeElement);
  if (listed && count > listed && isRead) {
    byId("newer").hidden = false;
    byId("newer").textContent = `Show ${whole.format(count - listed)} newer`;
  } else {
    await listDuplicates(count);
  }
}

byId("newer").addEventListener("click", async () => {
  await listDuplicates(latestCount);
  byId("duplicate-list").querySelector("summary")?.focus();
});

// ---------------------------------------------------------------- dead letters

let lettersListed = "";

function letterOf(each) {
  return el("li", {},
    el("p", {}, when(each.decided), ` ${place(each.source)}: ${each.detail}`),
    each.excerpt ? el("pre", { dir: "auto", tabindex: "0", "aria-label": `How ${place(each.source)} begins` }, each.excerpt) : null);
}

// Keep opened entries open, and the focus.
async function followDeadLetters({ troubles: { dead_letters: counts } }) {
  const total = totalOf(counts);
  if (JSON.stringify(counts) === lettersListed) return;
  const { dead_letters: letters } = await ask("/api/dead-letters");
  lettersListed = JSON.stringify(counts);
  const list = byId("dead-letter-list");
  const opened = new Set([...list.querySelectorAll("details[open]")].map((each) => each.dataset.reason));
  const focused = document.activeElement?.closest?.("#dead-letter-list details")?.dataset.reason;
  byId("dead-letters-note").textContent = total
    ? `${whole.format(total)} since the start, by reason, with the latest of each. firstseen dlq shows and replays them.`
    : "none yet";
  const reasons = Object.entries(counts).sort(([, a], [, b]) => b - a);
  list.replaceChildren(...reasons.map(([reason, count]) => el("details", { "data-reason": reason, open: opened.has(reason) },
    el("summary", {}, el("strong", {}, reason.replaceAll("_", " ")), ` ${whole.format(count)}`),
    el("ul", { class: "letters" }, ...letters.filter((each) => each.reason === reason).map(letterOf)))));
  if (focused) list.querySelector(`[data-reason="${focused}"] summary`)?.focus();
}

// ---------------------------------------------------------------- check

const VERDICTS = {
  unique: "Unique: no document of the index is near it",
  undecidable: "Undecidable: too little text for a fingerprint, and no exact repeat",
  near_duplicate: "Near duplicate",
  exact_duplicate: "Exact duplicate",
};

function verdictText(answer) {
  const original = answer.original ? ` of ${answer.original.id}` : "";
  return `${VERDICTS[answer.verdict] ?? answer.verdict}${original}.`;
}

function nearestTable(answer) {
  if (!answer.nearest.length) return el("p", { class: "quiet" }, "No document shares a bucket with it.");
  const names = ["Document", "Near", "Distance", "Agreement", "Bucket", "Source position"];
  return el("table", { class: "stacks" },
    el("caption", { class: "left quiet" }, "Nearest documents that share a bucket with it"),
    el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...answer.nearest.map((each) => el("tr", {},
      cell("", each.id, true),
      cell("near", each.near ? "yes" : "no"),
      cell("distance", `${each.distance} of ${answer.bits}`),
      cell("agreement", each.agreement === null ? "–" : each.agreement.toFixed(3)),
      cell("bucket", each.block === null ? "–" : String(each.block)),
      cell("at", place(each.source), true)))));
}

function drawAnswer(answer) {
  const { differences } = answer;
  const first = answer.nearest.find((each) => differences && place(each.source) === place(differences.source));
  byId("answer").replaceChildren(
    el("p", { class: "verdict", tabindex: "-1" }, verdictText(answer)),
    facts([
      ["fingerprint", answer.fingerprint ?? `none (${answer.undecidable})`],
      ["features", answer.features],
      ["candidates", whole.format(answer.candidates)],
      ["fullest bucket", counted(answer.fullest_bucket, "document")],
    ]),
    nearestTable(answer),
    differences ? el("div", { class: "sides" },
      side(first?.id ?? answer.original?.id ?? "document", differences.document, "del"),
      side("Your text", differences.text, "ins")) : "",
  );
}

async function check(event) {
  event.preventDefault();
  const form = byId("check-form");
  const button = form.querySelector("button");
  if (button.disabled || !form.reportValidity()) return;
  button.disabled = true;
  byId("answer").setAttribute("aria-busy", "true");
  try {
    drawAnswer(await ask("/api/check", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text: byId("text").value, differences: true }),
    }, CHECK_MS));
    const verdict = byId("answer").querySelector(".verdict");
    verdict.focus({ preventScroll: true });
    verdict.scrollIntoView({ block: "nearest" });
  } catch (error) {
    byId("answer").replaceChildren(el("p", { class: "trouble" }, error.message));
  } finally {
    button.disabled = false;
    byId("answer").removeAttribute("aria-busy");
  }
}

byId("check-form").addEventListener("submit", check);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) check(event);
});

// ---------------------------------------------------------------- the loop

let latestCount = 0;
let timer = 0;
let asking = false;

async function poll() {
  clearTimeout(timer);
  if (asking) return;
  asking = true;
  try {
    if (!document.hidden && byId("access").hidden) {
      const status = await ask("/api/status");
      latestCount = status.recent.duplicates;
      answeredAt = new Date();
      showContent(true);
      drawStale(null);
      draw(status);
      await followDuplicates(latestCount);
      await followDeadLetters(status);
    }
  } catch (error) {
    setState("bad", error.message ?? String(error));
    if (error.status !== 401) drawStale(error.message);
  } finally {
    asking = false;
    timer = setTimeout(poll, POLL_MS);
  }
}

document.addEventListener("visibilitychange", poll);
takeToken();
poll();
