// The page of a job: loads its past, follows it by server-sent events, and shows both.
import { Charts } from "./charts.js";
import * as format from "./format.js";
import * as panels from "./panels.js";

const byId = (id) => document.getElementById(id);
const POINTS = 300;
const RETRY_MS = 3000;
const FULL_RETRY_MS = 30000;  // too many pages follow the job; one that waits is no help

const state = {
  range: 300,  // seconds shown; 0: all
  data: { t: [], series: {}, members: {} },
  frame: null,
  source: null,
  ended: false,  // nothing more will come
};
let charts = null;
let logs = null;

// ---- data

async function loadHistory() {
  const range = state.range;
  const response = await fetch(`history?seconds=${range}&points=${POINTS}`, { cache: "no-store" });
  if (!response.ok) throw new Error(`history: status ${response.status}`);
  const history = await response.json();
  if (range === state.range) state.data = history;
}

const columns = () => [
  ...Object.values(state.data.series), ...Object.values(state.data.members).flatMap((member) => Object.values(member)),
];

// Adds the newest sample to the columns.
function append(sample) {
  const { data } = state;
  const last = data.t.length ? data.t[data.t.length - 1] : 0;
  if (!(sample.t > last)) return;
  const length = data.t.length;
  const put = (table, name, value) => {
    if (!table[name]) table[name] = new Array(length).fill(null);
    table[name].push(value);
  };
  data.t.push(sample.t);
  for (const [name, value] of Object.entries(sample.series)) put(data.series, name, value);
  for (const [member, figures] of Object.entries(sample.members)) {
    data.members[member] ||= {};
    for (const [name, value] of Object.entries(figures)) put(data.members[member], name, value);
  }
  for (const column of columns()) while (column.length < data.t.length) column.push(null);
  const first = state.range > 0 ? data.t.findIndex((t) => t > sample.t - state.range - 5) : 0;
  if (first > 0) {
    data.t.splice(0, first);
    for (const column of columns()) column.splice(0, first);
  }
  // Seconds have piled up at the end of samples that are longer.
  if (data.t.length > 2 * POINTS) loadHistory().catch(() => {});
}

// ---- showing

function show() {
  const { frame, data } = state;
  if (!frame || document.hidden) return;
  panels.showHeader(frame.status);
  panels.showVerdicts(frame.verdicts);
  panels.showFacts(frame);
  const to = data.t.length ? data.t[data.t.length - 1] : frame.time;
  const begin = data.t.length ? data.t[0] : frame.time;
  // A job that has just begun fills the width, from half a minute on.
  const shortest = 30;
  const from = Math.min(to - shortest, Math.max(begin, state.range > 0 ? to - state.range : begin));
  charts.update(data, from, to, frame.status);
  panels.showSplit(frame);
  panels.showShares(frame);
  panels.showPlacement(frame.status);
  panels.showMembers(frame, data, logs.events, state.ended);
  logs.showCounts(frame.status);
}

function setConnection(kind, text) {
  const connection = byId("connection");
  connection.hidden = false;
  connection.className = "live " + kind;
  connection.lastChild.textContent = text;
}

function notice(text, plain) {
  const element = byId("notice");
  element.hidden = !text;
  element.textContent = text || "";
  element.classList.toggle("plain", Boolean(plain));
}

// ---- connection

// Why there is no stream is not told to scripts; this asks again, as another request.
async function isFull() {
  const request = new AbortController();
  try {
    return (await fetch("events", { cache: "no-store", signal: request.signal })).status === 503;
  } catch {
    return false;
  } finally {
    request.abort();
  }
}

async function showHistory() {
  await loadHistory().catch(() => {});
  // The newest sample came while the history was loaded.
  if (state.frame?.sample) append(state.frame.sample);
  show();
}

function follow() {
  state.source?.close();
  const source = new EventSource("events");
  state.source = source;
  let open = false;
  source.onopen = () => {
    open = true;
    showHistory();
  };
  source.addEventListener("log", (message) => logs.add(JSON.parse(message.data)));
  source.addEventListener("frame", (message) => {
    const frame = JSON.parse(message.data);
    state.frame = frame;
    if (frame.status) {
      byId("board").hidden = false;
      if (!charts) charts = new Charts(byId("charts"));
      notice("");
      append(frame.sample);
      show();
    } else {
      notice("There is nothing to show yet: the job has not begun.", true);
    }
    setConnection(frame.live ? "on" : "", frame.live ? "live" : frame.status?.phase === "ended" ? "finished" : "not running");
  });
  source.addEventListener("end", () => {
    state.ended = true;
    source.close();
    setConnection("", "finished");
    show();
  });
  source.onerror = async () => {
    source.close();
    if (state.ended || state.source !== source) return;
    setConnection("off", "no connection");
    if (!open && (await isFull())) {
      notice("Too many pages follow this job. This one is shown when another one is closed.");
      setTimeout(start, FULL_RETRY_MS);
      return;
    }
    notice(`The job's coordinator does not answer${state.frame ? `; this is its state of ${format.clock(state.frame.time)}` : ""}. Trying again…`);
    setTimeout(start, RETRY_MS);
  };
}

async function start() {
  try {
    const response = await fetch("session", { cache: "no-store" });
    const session = await response.json();
    if (!session.authorised) {
      byId("login").hidden = false;
      notice("");
      return;
    }
    follow();
  } catch {
    setConnection("off", "no connection");
    setTimeout(start, RETRY_MS);
  }
}

// Exchanges the view token for a cookie that scripts cannot read.
async function login(token) {
  const response = await fetch("session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  return response.ok;
}

async function begin() {
  logs = new panels.Logs();
  // The part of a link behind # is not sent to any server.
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, "", location.pathname);
    if (!(await login(token).catch(() => false))) byId("login-error").textContent = "The token of this link is not that of the job.";
  }
  start();
}

byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const accepted = await login(byId("token").value.trim()).catch(() => false);
  byId("login-error").textContent = accepted ? "" : "This is not the view token of the job.";
  if (!accepted) return;
  byId("login").hidden = true;
  start();
});

for (const button of document.querySelectorAll("[data-range]")) {
  button.addEventListener("click", async () => {
    state.range = Number(button.dataset.range);
    for (const other of document.querySelectorAll("[data-range]")) other.setAttribute("aria-pressed", String(other === button));
    showHistory();
  });
}

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  show();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
document.addEventListener("visibilitychange", show);

begin();
