// Numbers and times as text. Unknown values are shown as a dash.
const DASH = "–";

export const known = (x) => typeof x === "number" && Number.isFinite(x);

function trimmed(x, digits) {
  return x.toFixed(digits).replace(/\.0+$/, "");
}

function scaled(x, units, step) {
  let unit = 0;
  let value = Math.abs(x);
  while (value >= step * 0.99995 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return (x < 0 ? "−" : "") + trimmed(value, digits) + units[unit];
}

// 39.5k, 1.2M
export const count = (x) => (known(x) ? scaled(x, ["", "k", "M", "G", "T"], 1000) : DASH);
export const exact = (x) => (known(x) ? Math.round(x).toLocaleString("en-US") : DASH);
export const perSecond = (x) => (known(x) ? count(x >= 10 ? Math.round(x) : x) + "/s" : DASH);
export const bytes = (x) => (known(x) ? scaled(x, [" B", " KiB", " MiB", " GiB", " TiB"], 1024) : DASH);
export const bytesPerSecond = (x) => (known(x) ? scaled(Math.round(x), [" B", " kB", " MB", " GB"], 1000) + "/s" : DASH);
export const figure = (x) => (known(x) ? (Math.abs(x) >= 100 ? count(x) : x.toFixed(Math.abs(x) >= 10 ? 2 : 4)) : DASH);
// A tick of an axis, without zeros at its end.
export const plain = (x) => (known(x) ? (Math.abs(x) >= 1000 ? count(x) : String(Number(x.toPrecision(4)))) : DASH);
export const percent = (x) => (known(x) ? (x > 0 && x < 0.0995 ? trimmed(x * 100, 1) : Math.round(x * 100)) + " %" : DASH);
export const milliseconds = (x) => (known(x) ? (x >= 1000 ? seconds(x / 1000) : trimmed(x, x >= 100 ? 0 : x >= 10 ? 1 : 2) + " ms") : DASH);

export function seconds(x) {
  if (!known(x)) return DASH;
  if (x < 1) return Math.round(x * 1000) + " ms";
  if (x < 60) return trimmed(x, x < 10 ? 1 : 0) + " s";
  if (x < 3600) return Math.floor(x / 60) + " min " + Math.floor(x % 60) + " s";
  if (x < 86400) return Math.floor(x / 3600) + " h " + Math.floor((x % 3600) / 60) + " min";
  return Math.floor(x / 86400) + " d " + Math.floor((x % 86400) / 3600) + " h";
}

// How figures of a unit are written: at an axis, elsewhere, and as a fact above the charts.
const COUNT = { tick: count, value: count, fact: exact, zero: true };
const PER_SECOND = { ...COUNT, value: perSecond };
const NUMBER = { tick: plain, value: figure, fact: figure };
const UNITS = {
  "": NUMBER,
  ratio: NUMBER,
  seconds: { tick: seconds, value: seconds, fact: seconds, zero: true },
  milliseconds: { tick: milliseconds, value: milliseconds, fact: milliseconds, zero: true },
  bytes: { tick: bytes, value: bytes, fact: bytes, zero: true },
  "bytes/s": { tick: bytesPerSecond, value: bytesPerSecond, fact: bytesPerSecond, zero: true },
  // A share of the time; of processors: how many are in use.
  "seconds/s": { tick: (x) => Math.round(x * 100) + " %", value: percent, fact: (x) => x.toFixed(1), zero: true, most: 1 },
};
export const unit = (name) => UNITS[name] || (name.endsWith("/s") ? PER_SECOND : COUNT);

const two = (x) => String(x).padStart(2, "0");

// The time of day of seconds since 1970.
export function clock(time, withSeconds = true) {
  const date = new Date(time * 1000);
  return two(date.getHours()) + ":" + two(date.getMinutes()) + (withSeconds ? ":" + two(date.getSeconds()) : "");
}

export function day(time) {
  const date = new Date(time * 1000);
  return two(date.getDate()) + "." + two(date.getMonth() + 1) + ".";
}
