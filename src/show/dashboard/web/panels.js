// The parts of the page that are no charts. Whatever comes from the job is inserted as text.
import { color, legendEntry } from "./charts.js";
import * as figures from "./figures.js";
import * as format from "./format.js";

const byId = (id) => document.getElementById(id);

export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

const byRole = { ps: 0, worker: 1, feed: 2, coordinator: 3 };
const standsBy = (m) => m.state === "standby";
const nameOf = (m) => `${standsBy(m) ? "standby" : m.role === "coordinator" ? "standby coordinator" : m.role} ${m.index}`;
const inOrder = (a, b) => (byRole[a.role] ?? 9) - (byRole[b.role] ?? 9) || a.index - b.index || a.node - b.node;

// ---- at a glance

export function showVerdicts(verdicts) {
  for (const verdict of verdicts) {
    const card = byId("verdict-" + verdict.what);
    if (!card) continue;
    card.className = "verdict " + verdict.level;
    card.querySelector(".headline").textContent = verdict.headline;
    card.querySelector(".why").textContent = verdict.why;
  }
}

const PHASES = { running: "good", paused: "warn", "waiting for servers": "warn", "waiting for workers": "warn" };

export function showHeader(status) {
  const members = status.members || [];
  const number = (role) => members.filter((m) => m.role === role && !standsBy(m)).length;
  byId("job").textContent = status.job || "Leat";
  document.title = `${status.job || "job"} · Leat`;
  const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const parts = [status.strategy, plural(status.all_members ? "many" : number("worker"), "worker")];
  if (number("ps") > 0) parts.push(plural(number("ps"), "server"));
  byId("subtitle").textContent = parts.filter(Boolean).join(" · ");
  const phase = byId("phase");
  phase.hidden = !status.phase;
  phase.textContent = status.phase;
  phase.className = "pill " + (PHASES[status.phase] || "");
}

export function showFacts({ status, facts: known }) {
  const facts = known.map(({ label, unit, value }) => [label, format.unit(unit).fact(value)]);
  const checkpoint = status.checkpoint ? status.checkpoint.split("/").pop().replace("checkpoint-", "").replace(/^0+/, "") : "none";
  facts.splice(3, 0, ["Checkpoint", status.saving ? `${checkpoint} (saving ${status.saving.checkpoint})` : checkpoint]);
  const list = byId("facts");
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, value], i) => {
    if (!list.children[i]) {
      const entry = make("div");
      entry.append(make("dt"), make("dd"));
      list.append(entry);
    }
    list.children[i].firstChild.textContent = name;
    list.children[i].lastChild.textContent = value;
    list.children[i].lastChild.title = value;
  });
}

// ---- bars

function segment(share, background, title) {
  const part = make("i");
  part.style.width = Math.max(0, Math.min(1, share)) * 100 + "%";
  part.style.background = background;
  if (title) part.title = title;
  return part;
}

function barRow(name, value) {
  const row = make("div", "row");
  const bars = make("div", "bars");
  row.append(make("span", "name", name), bars, make("span", "value", value));
  row.firstChild.title = name;
  return { row, bars };
}

const MOST_ROWS = 24;
const idle = () => getComputedStyle(document.documentElement).getPropertyValue("--idle").trim();

// The title of a figure's bar, with what belongs to it.
function barTitle({ name, label }, member, share) {
  const details = figures.details.filter((detail) => detail.label === name && member[detail.name] !== undefined);
  return [`${label}: ${format.percent(share)}`, ...details.map((detail) => {
    const { value } = format.unit(detail.unit);
    if (!detail.key) return value(member[detail.name]);
    const [key, most] = member[detail.name].map(Object.values).reduce((a, b) => (b[1] > a[1] ? b : a));
    return `longest for ${detail.key} ${key}: ${value(most)} in all`;
  })].join(", ");
}

const barsOf = (role, as) => figures.bars.filter((bar) => bar.role === role && bar.as === as);

export function showSplit(frame) {
  const parts = barsOf("worker", "part");
  const others = barsOf("worker", "bar");
  const legend = byId("split-legend");
  legend.replaceChildren();
  for (const part of parts) legendEntry(legend, part.label, color(part.color));
  legendEntry(legend, "other", idle());
  for (const bar of others) legendEntry(legend, bar.label, color(bar.color));
  const workers = (frame.status.members || []).filter((m) => m.role === "worker" && !standsBy(m)).sort(inOrder);
  const shown = workers.length <= MOST_ROWS ? workers
    : [...workers].sort((a, b) => Number(Boolean(b.slow)) - Number(Boolean(a.slow)) || inOrder(a, b)).slice(0, MOST_ROWS);
  const rows = shown.map((m) => {
    const rates = frame.sample.members[`worker ${m.index}`] || {};
    const { row, bars } = barRow(`worker ${m.index}`, format.milliseconds(m.step_ms) + (m.slow ? " · slow" : " a step"));
    if (m.slow) row.classList.add("slow");
    const track = make("div", "track");
    let left = 1;
    for (const part of parts) {
      const share = Math.min(left, rates[part.name] || 0);
      left -= share;
      track.append(segment(share, color(part.color), barTitle(part, m, share)));
    }
    if (format.known(rates[parts[0].name])) track.append(segment(left, idle(), `other: ${format.percent(left)}`));
    bars.append(track);
    for (const bar of others) {
      const thin = make("div", "track thin");
      thin.append(segment(rates[bar.name] || 0, color(bar.color), barTitle(bar, m, rates[bar.name])));
      bars.append(thin);
    }
    return row;
  });
  byId("split-rows").replaceChildren(...(rows.length ? rows : [make("p", "empty", "no worker yet")]));
}

export function showShares(frame) {
  const servers = (frame.status.members || []).filter((m) => m.role === "ps").sort(inOrder);
  const panel = byId("shares");
  panel.hidden = servers.length === 0;
  const [part] = barsOf("ps", "part");
  const [held] = barsOf(undefined, "bar");
  const traffic = (m) => (frame.sample.members[`ps ${m.index}`] || {})[part.name] || 0;
  const total = servers.reduce((sum, m) => sum + traffic(m), 0);
  const legend = byId("shares-legend");
  legend.replaceChildren();
  legendEntry(legend, part.label, color(part.color));
  legendEntry(legend, held.label, idle());
  if (servers.length > 1) legend.append(make("span", "", `even: ${format.percent(1 / servers.length)}`));
  byId("shares-rows").replaceChildren(...servers.slice(0, MOST_ROWS).map((m) => {
    const share = total > 0 ? traffic(m) / total : 0;
    const { row, bars } = barRow(`ps ${m.index}`, `${format.percent(total > 0 ? share : NaN)} · ${format.unit(part.unit).value(traffic(m))}`);
    bars.classList.add("over");
    const track = make("div", "track");
    const even = 1 / servers.length;
    const much = servers.length > 1 && share > 1.5 * even;
    track.append(segment(share, much ? color(2) : color(m.index), barTitle(part, m, share)));
    const thin = make("div", "track thin");
    thin.append(segment(m[held.name] || 0, idle(), barTitle(held, m, m[held.name])));
    bars.append(track, thin);
    if (servers.length > 1) {
      const line = make("span", "fair");
      line.style.left = even * 100 + "%";
      line.title = "an even share";
      bars.append(line);
    }
    return row;
  }));
}

const MOST_VARIABLES = 40;

export function showPlacement(status) {
  const variables = [...(status.variables || [])].sort((a, b) => b.bytes - a.bytes);
  byId("placement").hidden = variables.length === 0;
  if (variables.length === 0) return;
  const servers = new Map();
  variables.forEach((variable, i) => {
    for (const part of variable.ps || []) {
      if (!servers.has(part.index)) servers.set(part.index, []);
      servers.get(part.index).push({ name: variable.name, whole: variable.bytes, bytes: part.bytes, color: color(i) });
    }
  });
  const sum = (parts) => parts.reduce((total, part) => total + part.bytes, 0);
  const most = Math.max(1, ...[...servers.values()].map(sum));
  const number = status.all_variables || variables.length;
  byId("placement-note").textContent =
    `${number} variable${number === 1 ? "" : "s"}, ${format.bytes(variables.reduce((total, v) => total + v.bytes, 0))}`;
  const rows = [...servers.entries()].sort((a, b) => a[0] - b[0]).slice(0, MOST_ROWS).map(([index, parts]) => {
    const { row, bars } = barRow(`ps ${index}`, format.bytes(sum(parts)));
    const track = make("div", "track parts");
    for (const part of parts.slice(0, MOST_VARIABLES)) {
      const piece = part.bytes < part.whole ? `${format.bytes(part.bytes)} of ${format.bytes(part.whole)}` : format.bytes(part.bytes);
      track.append(segment(part.bytes / most, part.color, `${part.name}: ${piece}`));
    }
    bars.append(track);
    return row;
  });
  const legend = make("div", "legend");
  variables.slice(0, 8).forEach((variable, i) => legendEntry(legend, variable.name, color(i), format.bytes(variable.bytes)));
  byId("placement-rows").replaceChildren(...rows, legend);
}

// ---- members

const SVG = "http://www.w3.org/2000/svg";

// A line without axes.
function trend(values) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 120 22");
  svg.setAttribute("aria-hidden", "true");
  const found = values.map((y, x) => ({ x, y })).filter((point) => format.known(point.y));
  if (found.length > 1) {
    const most = Math.max(...found.map((point) => point.y)) || 1;
    const line = document.createElementNS(SVG, "polyline");
    const last = Math.max(1, values.length - 1);
    line.setAttribute("points", found.map((point) => `${((point.x / last) * 120).toFixed(1)},${(21 - (point.y / most) * 19).toFixed(1)}`).join(" "));
    line.setAttribute("fill", "none");
    line.setAttribute("stroke", color(0));
    line.setAttribute("stroke-width", "1.4");
    svg.append(line);
  }
  return svg;
}

function stateOf(m, usual) {
  if (m.stuck) return ["bad", "stuck"];
  if (m.unreachable && m.unreachable.length) return ["bad", `cannot reach ${m.unreachable.join(", ")}`];
  if (standsBy(m) || m.role === "coordinator") return ["", "stands by"];
  if (m.state === "draining") return ["warn", "leaves"];
  if (m.slow) return ["warn", usual > 0 ? `slow, ${(m.step_ms / usual).toFixed(1)} × the usual step` : "slow"];
  return ["good", "live"];
}

function cell(row, className, content) {
  const td = make("td", className);
  td.append(content);
  row.append(td);
  return td;
}

function stateCell(row, level, text) {
  const state = make("span", "state " + level);
  state.append(make("i"), make("span", "", text));
  return cell(row, "", state);
}

const TREND = 2;  // place of the trend of the first column among the others

// The cells of the table's columns, after the state.
function figureCells(row, m, rates, past) {
  const cells = figures.columns.map((column) => {
    const figure = column.figures.find(({ role }) => !role || role === m.role);
    return make("td", "number", figure ? format.unit(figure.unit).value((figure.role ? rates : m)[figure.name]) : "–");
  });
  const speed = figures.columns[0].figures.find(({ role }) => role === m.role);
  cells.splice(TREND, 0, make("td", "trend"));
  cells[TREND].append(trend((speed && past[speed.name]) || []));
  row.append(...cells);
}

function showHead() {
  const head = document.querySelector("#members thead tr");
  if (head.children.length > 0) return;
  const titles = figures.columns.map(({ title }) => make("th", "number", title));
  titles.splice(TREND, 0, make("th", "trend", "Last minutes"));
  head.append(make("th", "", "Member"), make("th", "", "State"), ...titles, make("th", "", "Process"));
}

const MOST_GONE = 12;

// `log`: of the job, oldest first. Members that are gone are known from it.
export function showMembers(frame, data, log, ended) {
  showHead();
  const members = [...(frame.status.members || [])].sort(inOrder);
  const steps = members.filter((m) => m.role === "worker" && format.known(m.step_ms)).map((m) => m.step_ms).sort((a, b) => a - b);
  const usual = steps.length ? steps[Math.floor((steps.length - 1) / 2)] : 0;
  const live = new Set(members.map((m) => m.node));
  const joined = new Map();
  const gone = [];
  for (const event of log) {
    if (event.kind === "joined") joined.set(event.node, event);
    if ((event.kind === "died" || event.kind === "left") && !live.has(event.node)) gone.push(event);
  }
  const rows = members.map((m) => {
    const row = make("tr", m.slow ? "slow" : "");
    row.dataset.node = m.node;
    cell(row, "member", nameOf(m));
    const [level, text] = ended ? ["", "ended"] : stateOf(m, usual);
    const state = stateCell(row, level, text);
    const former = gone.findLast((event) => event.member === `${m.role} ${m.index}`);
    if (former && joined.has(m.node) && joined.get(m.node).number > former.number) {
      const badge = make("span", "badge plain", "successor");
      badge.title = `of node ${former.node}`;
      state.append(badge);
    }
    if (m.skewed) state.append(make("span", "badge", "skewed share"));
    const of = (members) => (!standsBy(m) && members[`${m.role} ${m.index}`]) || {};
    figureCells(row, m, of(frame.sample.members), of(data.members));
    cell(row, "process", `node ${m.node}, pid ${m.pid ?? "?"} on ${m.host ?? "?"}`);
    return row;
  });
  for (const event of gone.slice(-MOST_GONE).reverse()) {
    const row = make("tr", "gone");
    row.dataset.node = event.node;
    cell(row, "member", event.member);
    stateCell(row, event.kind === "died" ? "bad" : "", event.kind === "died" ? "dead" : "left");
    for (let i = 0; i <= figures.columns.length; i += 1) cell(row, "", "");
    cell(row, "process", `node ${event.node}, ${event.kind === "died" ? "died" : "left"} at ${format.clock(event.time)}`);
    rows.push(row);
  }
  document.querySelector("#members tbody").replaceChildren(...rows);
  const hidden = (frame.status.all_members || members.length) - members.length;
  const dead = gone.filter((event) => event.kind === "died").length;
  byId("members-note").textContent = [`${members.length} live`, dead ? `${dead} died` : "", hidden ? `${hidden} more are not shown` : ""]
    .filter(Boolean).join(" · ");
}

// ---- log and dead letters

const MARKS = {
  joined: ["+", "good"], left: ["−", ""], died: ["✕", "bad"], checkpoint: ["✓", "accent"], checkpoint_failed: ["✕", "bad"],
  drift: ["~", "warn"], warning: ["!", "warn"], job: ["•", "accent"], member: ["•", ""], dead_letter: ["!", "warn"],
};
const MOST_LINES = 200;

function logLine(event) {
  const line = make("li");
  line.dataset.kind = event.kind;
  const [mark, level] = MARKS[event.kind] || ["•", ""];
  const time = make("time", "", format.clock(event.time));
  time.title = new Date(event.time * 1000).toLocaleString();
  const text = make("span", "text", event.text);
  if (event.kind === "dead_letter" && event.member) text.append(make("span", "from", `  (${event.member})`));
  line.append(time, make("span", "mark " + level, mark), text);
  return line;
}

function prepend(list, events) {
  list.querySelector(".empty")?.remove();
  for (const event of events) list.prepend(logLine(event));
  while (list.children.length > MOST_LINES) list.lastChild.remove();
}

// The kind of a reason: without the place, values in quotes and numbers.
function kindOf(text) {
  return text.replace(/^partition \d+ offset \d+: /, "").replace(/'.*'/s, "'…'").replace(/\d+/g, "#");
}

const MOST_REASONS = 8;

export class Logs {
  constructor() {
    this.clear();
  }

  clear() {
    this.events = [];
    this.reasons = new Map();
    byId("log").replaceChildren(make("li", "empty", "nothing has happened yet"));
    byId("dead").replaceChildren();
    byId("dead-reasons").replaceChildren();
    this.last = 0;
  }

  add(events) {
    const fresh = events.filter((event) => event.number > this.last);
    if (fresh.length === 0) return;
    this.last = fresh[fresh.length - 1].number;
    const dead = fresh.filter((event) => event.kind === "dead_letter");
    const others = fresh.filter((event) => event.kind !== "dead_letter");
    this.events = this.events.concat(others).slice(-1000);
    prepend(byId("log"), others);
    prepend(byId("dead"), dead);
    for (const event of dead) this.reasons.set(kindOf(event.text), (this.reasons.get(kindOf(event.text)) || 0) + 1);
    const reasons = [...this.reasons.entries()].sort((a, b) => b[1] - a[1]);
    this.reasons = new Map(reasons.slice(0, 100));
    byId("dead-reasons").replaceChildren(...reasons.slice(0, MOST_REASONS).map(([reason, seen]) => {
      const line = make("li", "", "");
      line.append(make("span", "", reason), make("b", "", `${seen} ×`));
      return line;
    }));
  }

  showCounts(status) {
    byId("log-note").textContent = `${this.events.length} events`;
    const number = status.dead_letters || 0;
    byId("dead-note").textContent = number === 0 ? "none: every record fits the schema" : `${format.exact(number)} records; the last of each worker, once a second`;
  }
}
