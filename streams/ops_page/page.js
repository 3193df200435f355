// The ops page: asks /api/status every two seconds and draws the answer. All texts come from
// strangers: they go into the page only as text (textContent), never as markup.

const POLL_MS = 2000;
const ANSWER_MS = 8000;
const TOKEN = "firstseen.token";
const byId = (id) => document.getElementById(id);

// ---------------------------------------------------------------- elements

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
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

const LONGEST_SECONDS = 1800; // the last bound of the histogram: beyond it nothing is told apart

function seconds(value) {
  if (value === null) return "–";
  if (value >= LONGEST_SECONDS) return "over 30 min";
  return value < 1 ? `${short.format(value * 1000)} ms` : `${short.format(value)} s`;
}

const place = (at) => `${at.topic}/${at.partition}@${at.offset}`;

// ---------------------------------------------------------------- asking

class Trouble extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const given = { cache: "no-store", ...options, headers, signal: AbortSignal.timeout(ANSWER_MS) };
  let answer;
  try {
    answer = await fetch(path, given);
  } catch {
    throw new Trouble("no answer from the worker", 0);
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  const message = body?.error?.message ?? `the worker answered ${answer.status}`;
  if (answer.status === 401) showAccess(token ? "This is not the token." : "");
  throw new Trouble(message, answer.status);
}

// The token may come after #, which browsers never send; it is then removed from the address bar.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", location.pathname);
  }
}

function showAccess(trouble) {
  sessionStorage.removeItem(TOKEN);
  byId("access-trouble").textContent = trouble;
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

function drawState(status) {
  if (status.why_dead) setState("bad", status.why_dead);
  else if (!status.broker_up) setState("bad", "the broker does not answer");
  else if (status.why_not_ready) setState("wait", status.why_not_ready);
  else setState("good", "ready");
}

function tile(name, value, note) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value, note ? el("small", {}, note) : null));
}

function latest(rates) {
  const last = rates.slice(-5);
  return last.length ? last.reduce((sum, rate) => sum + rate, 0) / last.length : 0;
}

function drawTiles(status) {
  const counts = status.documents;
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const repeats = counts.near_duplicate + counts.exact_duplicate;
  const behind = status.lag.reduce((sum, each) => sum + each.messages, 0);
  const add = (name) => status.shards.reduce((sum, each) => sum + each[name], 0);
  const { latency, ordering, in_flight: flight } = status;
  byId("tiles").replaceChildren(
    tile("Throughput", `${short.format(latest(status.throughput.documents))}/s`, "documents, last 10 s"),
    tile("Duplicates", total ? percent.format(repeats / total) : "–", `${whole.format(repeats)} of ${whole.format(total)}`),
    tile("Lag", whole.format(behind), behind === 1 ? "raw record behind" : "raw records behind"),
    tile("Latency", seconds(latency.p50), `half; 95\u00a0%: ${seconds(latency.p95)}, 99\u00a0%: ${seconds(latency.p99)}`),
    tile("Index", whole.format(add("entries")), `documents here, ${bytes(add("store_bytes"))}`),
    tile("In flight", whole.format(flight.documents), `documents, ${bytes(flight.bytes)}`),
    tile("Undecided", whole.format(ordering.undecided_documents), `oldest: ${age(ordering)}`),
    tile("Disk", bytes(status.disk_free_bytes), `free of ${bytes(status.disk_size_bytes)}`),
  );
}

function age({ undecided_documents: documents, undecided_oldest_seconds: oldest }) {
  return documents ? seconds(oldest) : "–";
}

function drawThroughput({ documents, duplicates, sample_seconds: every }) {
  const most = Math.max(1, ...documents);
  const width = Math.max(1, documents.length - 1);
  const points = (values) => values.map((value, at) => `${at},${100 - (98 * value) / most}`);
  const line = points(documents).join(" ");
  byId("throughput").replaceChildren(
    el("span", { class: "most" }, `${short.format(most)}/s`),
    svg("svg", { viewBox: `0 0 ${width} 100`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("polygon", { class: "area", points: `0,100 ${line} ${documents.length - 1},100` }),
      svg("polyline", { class: "line-1", points: line }),
      svg("polyline", { class: "line-2", points: points(duplicates).join(" ") })),
  );
  const minutes = (documents.length * every) / 60;
  byId("throughput-from").textContent =
    minutes >= 1 ? `${short.format(minutes)} min ago` : `${Math.round(minutes * 60)} s ago`;
  byId("throughput").setAttribute("aria-label",
    `now ${short.format(latest(documents))} documents a second, ` +
    `${short.format(latest(duplicates))} of them duplicates; at most ${short.format(most)} a second`);
}

function bars(target, rows) {
  const most = Math.max(1, ...rows.map((row) => row.count));
  byId(target).replaceChildren(...rows.flatMap((row) => {
    const filled = el("span");
    filled.style.width = `${(100 * row.count) / most}%`;
    return [
      el("dt", {}, row.name),
      el("dd", { class: row.second ? "bar second" : "bar", "aria-hidden": "true" }, filled),
      el("dd", {}, whole.format(row.count)),
    ];
  }));
}

function drawDistances({ bits, near, bins }) {
  const shown = bins.filter(([bound]) => bound !== null && bound <= Math.max(near, 4));
  const most = Math.max(1, ...shown.map(([, count]) => count));
  const total = bins.reduce((sum, [, count]) => sum + count, 0);
  byId("distances").replaceChildren(...shown.map(([bound, count]) => {
    const column = el("i");
    column.style.height = `${(78 * count) / most}%`;
    return el("span", { title: `up to ${bound} bits: ${whole.format(count)}` }, column, String(bound));
  }));
  const said = shown.filter(([, count]) => count).map(([bound, count]) => `up to ${bound}: ${count}`);
  byId("distances").setAttribute("aria-label", said.length ? said.join(", ") : "no duplicates yet");
  byId("distances-note").textContent =
    `${whole.format(total)} duplicates since the start; near is up to ${near} of ${bits} bits`;
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

function drawLog({ ordering, fullest_bucket: fullest }) {
  const { leads, leader, log_position: position, log_end: end, reports_missing: missing } = ordering;
  const behind = Math.max(0, end - position);
  byId("log-facts").replaceChildren(...factPairs([
    ["leader", leads ? "this worker" : leader ?? "none known"],
    ["read up to", `${whole.format(position)}, ${counted(behind, "record behind", "records behind")}`],
    ["undecided", `${counted(ordering.undecided_documents, "document")}, oldest ${age(ordering)}`],
    ["reports missing", leads ? (missing.map((shard) => `shard ${shard}`).join(", ") || "none") : null],
    ["packets skipped", whole.format(ordering.packets_skipped)],
    ["control records refused", whole.format(ordering.control_records_refused)],
    ["foreign records", whole.format(ordering.foreign_records)],
  ]));
  byId("index-facts").replaceChildren(...factPairs([
    ["fullest bucket", fullest === null ? "none met in the last five minutes"
      : `${counted(fullest, "document")}, of those met in the last five minutes`],
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
  document.title = `${status.application_id} – Firstseen worker`;
  byId("application").textContent = status.application_id;
  byId("about").textContent =
    `profile ${status.profile}, ${status.delivery.replaceAll("_", " ")}, version ${status.version}`;
  drawState(status);
  drawTiles(status);
  drawThroughput(status.throughput);
  const name = (verdict) => verdict.replaceAll("_", " ");
  bars("verdicts", Object.entries(status.documents).map(([verdict, count]) =>
    ({ name: name(verdict), count, second: verdict.endsWith("duplicate") })));
  drawDistances(status.distances);
  drawLog(status);
  drawShards(status);
  byId("footer").textContent =
    `index ${status.index}; up for ${whole.format(Math.round(status.uptime_seconds / 60))} min; texts held here: ` +
    `${whole.format(status.recent.documents)}, ${bytes(status.recent.size_bytes)} of ${bytes(status.recent.limit_bytes)}`;
}

// ---------------------------------------------------------------- duplicates

const MOST_LISTED = 10;
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
    ["first equal block", each.block],
    ["agreement", each.agreement === null ? null : each.agreement.toFixed(3)],
  ];
}

async function openDuplicate(details, number) {
  const inside = details.querySelector(".inside");
  if (inside.childElementCount) return;
  try {
    const found = await ask(`/api/duplicates/${number}`);
    const { duplicate } = found;
    inside.replaceChildren(
      facts([...factsOf(duplicate), ["this", place(duplicate.source)],
        ["original", place(duplicate.original)], ["decided", duplicate.decided]]),
      el("div", { class: "sides" },
        side(`Original: ${duplicate.original_id}`, found.original_text, "del"),
        side(`This: ${duplicate.id}`, found.text, "ins")),
      found.missing ? el("p", { class: "quiet" }, `${found.missing}.`) : "",
    );
  } catch (error) {
    inside.replaceChildren(el("p", { class: "trouble" }, error.message));
  }
}

function duplicateRow(each) {
  const details = el("details", { "data-number": each.number },
    el("summary", {},
      el("strong", {}, each.id), el("span", { class: "arrow" }, " repeats "), el("strong", {}, each.original_id),
      el("span", { class: "why" }, `${each.method}: ${each.reason}`)),
    el("div", { class: "inside" }));
  details.addEventListener("toggle", () => { if (details.open) openDuplicate(details, each.number); });
  return details;
}

async function listDuplicates(count) {
  const { duplicates } = await ask("/api/duplicates");
  byId("newer").hidden = true;
  listed = duplicates.length ? duplicates[0].number : 0;
  byId("duplicate-list").replaceChildren(...duplicates.slice(0, MOST_LISTED).map(duplicateRow));
  const shown = Math.min(MOST_LISTED, duplicates.length);
  byId("duplicates-note").textContent = count
    ? `the last ${shown} of ${whole.format(count)}; open one to see both texts` : "none yet";
}

// Nothing moves under a reader: while one is open, or has the focus, newer ones are announced.
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
  const names = ["Document", "Near", "Distance", "Agreement", "Block", "Source position"];
  return el("table", { class: "stacks" },
    el("caption", { class: "left quiet" }, "Nearest documents that share a bucket with it"),
    el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...answer.nearest.map((each) => el("tr", {},
      cell("", each.id, true),
      cell("near", each.near ? "yes" : "no"),
      cell("distance", `${each.distance} of ${answer.bits}`),
      cell("agreement", each.agreement === null ? "–" : each.agreement.toFixed(3)),
      cell("block", each.block === null ? "–" : String(each.block)),
      cell("at", place(each.source), true)))));
}

function drawAnswer(answer) {
  const { differences } = answer;
  const first = answer.nearest.find((each) => differences && place(each.source) === place(differences.source));
  byId("answer").replaceChildren(
    el("p", { class: "verdict" }, verdictText(answer)),
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
    }));
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
      draw(status);
      await followDuplicates(latestCount);
    }
  } catch (error) {
    setState("bad", error.message ?? String(error));
  } finally {
    asking = false;
    timer = setTimeout(poll, POLL_MS);
  }
}

document.addEventListener("visibilitychange", poll);
takeToken();
poll();
