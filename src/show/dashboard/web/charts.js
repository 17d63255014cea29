// Charts over time, and the histogram of staleness.
import * as figures from "./figures.js";
import * as format from "./format.js";

const MOST_MEMBERS = 12;

export function color(index) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--c${index % 8}`).trim();
}

function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faded(hex, opacity) {
  return hex + Math.round(opacity * 255).toString(16).padStart(2, "0");
}

// A line through all charts at the moment that the pointer is at.
let hovered = null;
const all = [];
const crosshair = {
  id: "crosshair",
  afterEvent(chart, { event, inChartArea }) {
    if (!chart.options.crosshair) return;
    const at = inChartArea && event.type !== "mouseout" ? chart.scales.x.getValueForPixel(event.x) : null;
    if (at === hovered) return;
    hovered = at;
    for (const other of all) if (other !== chart && other.options.crosshair) other.draw();
  },
  afterDatasetsDraw(chart) {
    if (!chart.options.crosshair || hovered === null) return;
    const { ctx, chartArea: area, scales } = chart;
    const x = scales.x.getPixelForValue(hovered);
    if (x < area.left || x > area.right) return;
    ctx.save();
    ctx.strokeStyle = themeColor("--muted");
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    ctx.moveTo(x, area.top);
    ctx.lineTo(x, area.bottom);
    ctx.stroke();
    ctx.restore();
  },
};

// Ticks of a time axis at round moments.
function timeStep(span) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800];
  return steps.find((step) => span / step <= 5) || Math.ceil(span / 5 / 604800) * 604800;
}

function timeAxis() {
  return {
    type: "linear",
    grid: { display: false, drawBorder: false },
    ticks: { maxRotation: 0, autoSkip: false, callback: (x) => x, font: { size: 11 } },
    afterBuildTicks(axis) {
      const step = timeStep(axis.max - axis.min);
      const shift = step >= 3600 ? new Date(axis.max * 1000).getTimezoneOffset() * 60 : 0;
      axis.ticks = [];
      for (let at = Math.ceil((axis.min - shift) / step) * step + shift; at <= axis.max; at += step) axis.ticks.push({ value: at });
    },
    afterTickToLabelConversion(axis) {
      const step = timeStep(axis.max - axis.min);
      for (const tick of axis.ticks) tick.label = step >= 86400 ? format.day(tick.value) : format.clock(tick.value, step < 60);
    },
  };
}

function valueAxis({ tick, zero }, position) {
  return {
    position, beginAtZero: Boolean(zero), grace: zero ? "8%" : "12%",
    grid: { drawBorder: false, drawTicks: false, display: position === "left" },
    ticks: { maxTicksLimit: 5, padding: 8, callback: tick, font: { size: 11 } },
  };
}

// Returns the panel's parts: {canvas, legend, none, value}.
function build(panel, title) {
  const head = document.createElement("div");
  head.className = "head";
  const heading = document.createElement("h2");
  heading.textContent = title;
  const value = document.createElement("p");
  value.className = "value";
  head.append(heading, value);
  const legend = document.createElement("div");
  legend.className = "legend";
  const frame = document.createElement("div");
  frame.className = "canvas";
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  const none = document.createElement("div");
  none.className = "none";
  none.textContent = "no data yet";
  frame.append(canvas, none);
  panel.append(head, legend, frame);
  return { canvas, legend, none, value };
}

export function legendEntry(parent, label, background, value, dashed) {
  const entry = document.createElement("span");
  const key = document.createElement("i");
  if (dashed) {
    key.className = "dash";
    key.style.borderTopColor = background;
  } else {
    key.style.background = background;
  }
  entry.append(key, label);
  if (value !== undefined) {
    const bold = document.createElement("b");
    bold.textContent = value;
    entry.append(bold);
  }
  parent.append(entry);
}

class TimeChart {
  // `lines`: the figures that it shows.
  constructor(panel, title, lines) {
    this.lines = lines;
    this.stacked = lines[0].as === "part";
    this.parts = build(panel, title);
    const unit = format.unit(lines[0].unit);
    const scales = { x: timeAxis(), y: valueAxis(unit, "left") };
    scales.y.stacked = this.stacked;
    if (unit.most) {
      scales.y.max = unit.most;
      scales.y.grace = 0;
      scales.y.ticks.stepSize = unit.most / 4;
    }
    const right = lines.find((line) => line.as === "right");
    if (right) scales.y2 = valueAxis(format.unit(right.unit), "right");
    this.chart = new Chart(this.parts.canvas, {
      type: "line",
      data: { datasets: [] },
      plugins: [crosshair],
      options: {
        animation: false, parsing: false, normalized: true, responsive: true, maintainAspectRatio: false, crosshair: true,
        interaction: { mode: "index", intersect: false },
        scales,
        plugins: {
          legend: { display: false },
          tooltip: {
            padding: 10, boxPadding: 5, usePointStyle: true, cornerRadius: 8,
            callbacks: {
              title: (items) => (items.length ? format.clock(items[0].parsed.x) : ""),
              label: (item) => ` ${item.dataset.label}  ${item.dataset.format(item.parsed.y)}`,
            },
          },
        },
      },
    });
    all.push(this.chart);
  }

  // A line for each figure, or for each member.
  series(data) {
    return this.lines.flatMap((line) => {
      if (!line.role) return [{ ...line, values: data.series[line.name] || [] }];
      const names = Object.keys(data.members).filter((name) => name.startsWith(line.role + " "));
      names.sort((a, b) => Number(a.split(" ")[1]) - Number(b.split(" ")[1]));
      return names.slice(0, MOST_MEMBERS).map((name) => (
        { ...line, label: name, color: Number(name.split(" ")[1]), values: data.members[name][line.name] || [] }));
    }).filter((s) => s.values.some(format.known));
  }

  update(data, from, to) {
    const { chart, parts, stacked } = this;
    const series = this.series(data);
    while (chart.data.datasets.length > series.length) chart.data.datasets.pop();
    parts.legend.replaceChildren();
    series.forEach((s, i) => {
      const line = color(s.color);
      const dashed = s.as === "dashed";
      const filled = s.as === "filled";
      const { value } = format.unit(s.unit);
      const dataset = chart.data.datasets[i] || (chart.data.datasets[i] = {});
      Object.assign(dataset, {
        label: s.label, format: value, yAxisID: s.as === "right" ? "y2" : "y",
        data: data.t.map((x, k) => ({ x, y: format.known(s.values[k]) ? s.values[k] : null })),
        borderColor: line, backgroundColor: faded(line, stacked ? 0.55 : filled ? 0.13 : 1),
        borderWidth: stacked ? 1 : 1.8, borderDash: dashed ? [5, 4] : [], pointRadius: 0, pointHoverRadius: 3,
        pointHoverBackgroundColor: line, cubicInterpolationMode: "monotone",
        fill: stacked && i > 0 ? "-1" : stacked || filled ? "origin" : false,
      });
      const last = value(s.values.findLast(format.known));
      legendEntry(parts.legend, s.label, line, last, dashed);
      if (i === 0 && !stacked) parts.value.textContent = last;
    });
    const { total, unit } = this.lines[0];
    if (data.series[total]) parts.value.textContent = format.unit(unit).value(data.series[total].findLast(format.known));
    parts.none.hidden = series.length > 0;
    chart.options.scales.x.min = from;
    chart.options.scales.x.max = to;
    applyTheme(chart);
    chart.update("none");
  }
}

// Bars of a histogram whose entry i counts value i: one for each small value, and wider ones for larger values.
function bars(histogram) {
  const found = [];
  for (let i = 0; i < histogram.length;) {
    const end = Math.min(Math.max(i + 1, Math.floor(i * 1.25)), histogram.length);
    found.push({ label: end === i + 1 ? String(i) : `${i}–${end - 1}`, count: histogram.slice(i, end).reduce((a, b) => a + b, 0) });
    i = end;
  }
  return found;
}

class StalenessChart {
  constructor(panel, title) {
    this.parts = build(panel, title);
    this.chart = new Chart(this.parts.canvas, {
      type: "bar",
      data: { labels: [], datasets: [{ data: [], backgroundColor: () => color(4), borderRadius: 3, barPercentage: 0.92, categoryPercentage: 0.98 }] },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        scales: {
          x: { grid: { display: false, drawBorder: false }, ticks: { maxRotation: 0, autoSkipPadding: 12, font: { size: 11 } } },
          y: {
            type: "logarithmic", max: 1, grid: { drawBorder: false, drawTicks: false },
            afterBuildTicks(axis) { axis.ticks = [1, 0.1, 0.01, 0.001, 0.0001].filter((x) => x >= axis.min).map((value) => ({ value })); },
            ticks: { padding: 8, callback: (x) => Number((x * 100).toPrecision(2)) + " %", font: { size: 11 } },
          },
        },
        plugins: {
          legend: { display: false },
          tooltip: {
            padding: 10, cornerRadius: 8, displayColors: false,
            callbacks: {
              title: (items) => (items.length ? `${items[0].label} updates behind` : ""),
              label: (item) => `${Number((item.parsed.y * 100).toPrecision(3))} % of the updates`,
            },
          },
        },
      },
    });
    all.push(this.chart);
  }

  update(status) {
    const { chart, parts } = this;
    const histogram = status.staleness || [];
    const total = histogram.reduce((a, b) => a + b, 0);
    const found = bars(histogram);
    const shares = found.map((bar) => (total > 0 ? bar.count / total : 0));
    chart.data.labels = found.map((bar) => bar.label);
    chart.data.datasets[0].data = shares.map((share) => (share > 0 ? share : null));
    const least = Math.min(1, ...shares.filter((share) => share > 0));
    chart.options.scales.y.min = Math.max(1e-5, 10 ** Math.floor(Math.log10(least) - 0.01));
    parts.legend.replaceChildren();
    parts.value.textContent = total > 0 ? format.count(status.staleness_mean) : "";
    if (total > 0) legendEntry(parts.legend, "share of updates; 99 % are at most", color(4), `${status.staleness_p99} behind`);
    parts.none.hidden = total > 0;
    applyTheme(chart);
    chart.update("none");
  }
}

// Chart.js reads colours when it draws, so a switch of the theme needs them again.
function applyTheme(chart) {
  const muted = themeColor("--muted");
  const grid = themeColor("--grid");
  for (const scale of Object.values(chart.options.scales)) {
    scale.ticks.color = muted;
    scale.grid.color = grid;
  }
  Object.assign(chart.options.plugins.tooltip, {
    backgroundColor: themeColor("--panel"), titleColor: themeColor("--text"), bodyColor: themeColor("--text"),
    borderColor: themeColor("--line"), borderWidth: 1,
  });
}

export class Charts {
  constructor(root) {
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    this.timed = [];
    const others = root.firstChild;
    for (const { title, figures: lines } of figures.charts) {
      const panel = document.createElement("article");
      panel.className = "panel chart";
      root.insertBefore(panel, others);
      // The histogram is of the status; all others are of the history.
      if (lines.length === 0) this.staleness = new StalenessChart(panel, title);
      else this.timed.push(new TimeChart(panel, title, lines));
    }
  }

  // `data`: {t, series, members}; the times shown are from `from` to `to`.
  update(data, from, to, status) {
    for (const chart of this.timed) chart.update(data, from, to);
    this.staleness.update(status);
  }
}
