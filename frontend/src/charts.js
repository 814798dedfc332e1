// Draws the dashboard's charts from the data blocks beside them. Colours are the style sheet's, so that light and dark
// follow by themselves; nothing is written as inline style or markup, which the pages' security policy forbids.
import { areaY, axisX, axisY, dot, gridX, gridY, hexagon, hexbin, lineY, line, link, plot, pointer, pointerX, ruleX, ruleY, text, tip } from "@observablehq/plot";

const KINDS = ["wait", "calm", "lean", "always"]; // later ones lie on top
const COLOUR = Object.fromEntries(KINDS.map((kind) => [kind, `var(--${kind})`]));
const SYMBOL = { calm: "circle", lean: "square", always: "triangle", wait: "times" };
const DASH = { calm: undefined, lean: "6 3", always: undefined, wait: "1 3" };
const WIDTH = { calm: 1, lean: 2, always: 2.5, wait: 1 };
const MOST_LABELS = 14;
const LABEL_HEIGHT = 15;

const sign = (value, digits = 2) =>
  value == null ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(digits)}`;
const side = (value) => (value == null ? "–" : `${value > 0 ? "left " : value < 0 ? "right " : ""}${Math.abs(value).toFixed(2)}`);
const isFlagged = (d) => d.kind === "lean" || d.kind === "always";
const percent = (value) => `${Math.round(100 * value)} %`;
const moment = (seconds) => (seconds == null ? "" : `\n${new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ")} UTC`);
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
// Labels are cut by their width on the screen, between whole characters: one letter may be as wide as three others.
// `tail` characters of the end stay, since names such as "Person 41" and "Person 42" differ there.
const segmenter = new Intl.Segmenter();
const ruler = document.createElement("canvas").getContext("2d");
function fit(text, pixels, tail = 0) {
  ruler.font = "12px system-ui, sans-serif";
  const isWide = (part) => ruler.measureText(part).width > pixels;
  if (!isWide(text)) return text;
  const segments = [...segmenter.segment(text)].map((part) => part.segment);
  const end = segments.slice(segments.length - tail).join("");
  let kept = "";
  for (const segment of segments) {
    if (isWide(`${kept}${segment}…${end}`)) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…${end}`;
}
const AXIS = { stroke: "var(--line)", fill: "var(--muted)", fontSize: 12 };
const grid = { stroke: "var(--line)", strokeOpacity: 1 };
const tipStyle = { fill: "var(--surface)", stroke: "var(--line)", fontSize: 12, lineWidth: 24, textPadding: 10 };

function sides(data, width) {
  const middle = (d) => (d.from + d.until) / 2;
  return {
    width, height: 270, marginLeft: 52, marginBottom: 40, marginTop: 30,
    x: { label: "answer" }, y: { domain: [0, 1], label: null },
    marks: [
      gridY({ ...grid, ticks: 5 }),
      ruleY([0.5], { stroke: "var(--muted)", strokeDasharray: "4 3" }),
      axisX({ ...AXIS, ticks: 6, label: "number of the answer" }),
      axisY({ ...AXIS, ticks: 5, tickFormat: percent, label: "left" }),
      link(data, { x1: middle, x2: middle, y1: "low", y2: "high", stroke: "var(--muted)", strokeWidth: 2, strokeOpacity: 0.6 }),
      lineY(data, { x: middle, y: "share", stroke: "var(--calm)", strokeWidth: 1.5, strokeOpacity: 0.6 }),
      dot(data, { x: middle, y: "share", fill: "var(--calm)", r: 4 }),
      tip(data, pointerX({ ...tipStyle, x: middle, y: "share", title: (d) => `answers ${d.from} to ${d.until}\n${d.left} of ${d.n} left: ${percent(d.share)}\n95 % interval ${percent(d.low)} to ${percent(d.high)}${moment(d.at)}` })),
    ],
  };
}

function evidence(data, width) {
  const limit = Math.log10(20);
  const top = Math.max(limit * 1.25, ...data.map((d) => d.log10));
  const bottom = Math.min(-0.5, ...data.map((d) => d.log10));
  const value = (d) => (d < 3 ? (10 ** d).toPrecision(2) : `10^${d.toFixed(1)}`);
  return {
    width, height: 270, marginLeft: 52, marginBottom: 40, marginTop: 30,
    x: { label: "answer" }, y: { domain: [bottom, top * 1.05], label: null },
    marks: [
      gridY({ ...grid, ticks: 5 }),
      axisX({ ...AXIS, ticks: 6, label: "number of the answer" }),
      axisY({ ...AXIS, ticks: 5, label: "log₁₀ e" }),
      ruleY([0], { stroke: "var(--muted)", strokeOpacity: 0.5 }),
      ruleY([limit], { stroke: "var(--lean)", strokeDasharray: "5 3" }),
      areaY(data, { x: "answer", y1: 0, y2: "log10", fill: "var(--calm)", fillOpacity: 0.12 }),
      lineY(data, { x: "answer", y: "log10", stroke: "var(--calm)", strokeWidth: 2 }),
      tip(data, pointerX({ ...tipStyle, x: "answer", y: "log10", title: (d) => `after answer ${d.answer}\ne = ${value(d.log10)} (log₁₀ ${sign(d.log10)})\nlasting from e = 20, the dashed line${moment(d.at)}` })),
    ],
  };
}

function ranking(data, width) {
  const left = width < 520 ? 120 : 230;
  const ticks = width < 520 ? 3 : 6;
  const label = new Map(data.map((d) => [d.item, fit(d.label, left - 16)]));
  return {
    width, height: 52 + 24 * data.length, marginLeft: left, marginBottom: 40, marginTop: 8,
    x: { label: null }, y: { domain: data.map((d) => d.item), label: null, type: "point", padding: 0.6 },
    marks: [
      gridX({ ...grid, ticks }),
      ruleX([0], { stroke: "var(--muted)", strokeOpacity: 0.5 }),
      axisX({ ...AXIS, ticks, label: "score" }),
      axisY({ ...AXIS, tickFormat: (item) => label.get(item), tickSize: 0, label: null }),
      link(data, { x1: "low", x2: "high", y1: "item", y2: "item", stroke: "var(--calm)", strokeWidth: 2.5, strokeOpacity: 0.55 }),
      link(data, { x1: "raw", x2: "score", y1: "item", y2: "item", stroke: "var(--muted)", strokeWidth: 1.5 }),
      dot(data, { x: "raw", y: "item", r: 5, fill: "var(--surface)", stroke: "var(--lean)", strokeWidth: 2 }),
      dot(data, { x: "score", y: "item", r: 4.5, fill: "var(--calm)" }),
      tip(data, pointer({ ...tipStyle, x: "score", y: "item", title: (d) => `${shorten(d.label, 60)}\nrank ${d.before} → ${d.rank}\nscore ${sign(d.raw, 3)} → ${sign(d.score, 3)}\n95 % interval ${sign(d.low, 3)} to ${sign(d.high, 3)}` })),
    ],
  };
}

function path(data, width) {
  const points = data.lines.flatMap((one, z) => one.gamma.map((gamma, k) => ({ z, t: data.times[k], gamma, name: one.name, kind: one.kind, finding: one.finding })));
  const ends = data.lines.map((one) => ({ t: data.times.at(-1), gamma: one.gamma.at(-1), name: one.name, kind: one.kind, url: one.url }));
  const of = (rows, kind) => rows.filter((d) => d.kind === kind);
  return {
    width, height: Math.min(460, Math.max(300, width * 0.5)), marginLeft: 52, marginRight: width < 520 ? 76 : 110, marginBottom: 42, marginTop: 28,
    x: { label: null, type: data.times.every((t) => t > 0) ? "log" : "linear" }, y: { label: null },
    marks: [
      gridY({ ...grid, ticks: 6 }),
      ruleY([0], { stroke: "var(--muted)" }),
      axisX({ ...AXIS, ticks: width < 520 ? 3 : 6, tickFormat: (t) => String(Number(t.toPrecision(2))), label: "path time" }),
      axisY({ ...AXIS, ticks: 6, label: "coefficient" }),
      ...KINDS.map((kind) => line(of(points, kind), { x: "t", y: "gamma", z: "z", stroke: COLOUR[kind], strokeWidth: WIDTH[kind], strokeOpacity: kind === "calm" || kind === "wait" ? 0.45 : 0.95, strokeDasharray: DASH[kind] })),
      ...KINDS.map((kind) => dot(of(ends, kind), { x: "t", y: "gamma", r: kind === "calm" || kind === "wait" ? 2.5 : 4.5, symbol: SYMBOL[kind], fill: kind === "wait" ? "none" : COLOUR[kind], stroke: COLOUR[kind], href: kind === "lean" || kind === "always" ? "url" : undefined })),
      text(spread(ends.filter(isFlagged), "gamma", MOST_LABELS), { x: "t", y: "gamma", dx: 9, textAnchor: "start", fill: "var(--text)", fontSize: 12, href: "url", text: (d) => fit(d.name, width < 520 ? 62 : 94, 3) }),
      tip(points, pointer({ ...tipStyle, x: "t", y: "gamma", title: (d) => `${shorten(d.name, 48)}\n${d.finding}\ncoefficient here ${sign(d.gamma)}` })),
    ],
  };
}

// Of rows placed at (x, y) pixels, those that can be labelled without one label lying on another; the first come first.
function apart(rows, place, gapX, gapY, most) {
  const kept = [];
  for (const row of rows) {
    const [x, y] = place(row);
    if (kept.length < most && kept.every(([, a, b]) => Math.abs(a - x) > gapX || Math.abs(b - y) > gapY)) kept.push([row, x, y]);
  }
  return kept.map(([row]) => row);
}

// Those labelled: the strongest, without two labels at nearly the same place.
function spread(rows, key, most, share = 0.06) {
  const range = Math.max(...rows.map((d) => Math.abs(d[key])), 1e-9);
  const kept = [];
  for (const row of rows) {
    if (kept.length < most && kept.every((other) => Math.abs(other[key] - row[key]) > range * share)) kept.push(row);
  }
  return kept;
}

// Round numbers on a logarithmic axis; where the axis spans none of them, the number of answers itself.
function answerTicks([low, high], least) {
  const round = [1, 2, 5].flatMap((digit) => [0, 1, 2, 3, 4, 5, 6].map((power) => digit * 10 ** power)).sort((a, b) => a - b);
  const inside = round.filter((n) => n >= low && n <= high);
  const step = Math.max(1, Math.ceil(inside.length / 6));
  return inside.length > 1 ? inside.filter((_, k) => k % step === 0) : [least];
}

// Lean against number of answers; left is on the left. Many people are drawn as density, the flagged as marks.
function lean(data, width) {
  const rows = data.points.filter((d) => d.bias != null);
  const flagged = rows.filter(isFlagged);
  const others = rows.filter((d) => !isFlagged(d));
  const cloud = (data.cloud ?? []).map(([bias, n]) => ({ bias, n }));
  const counts = [...rows, ...cloud].map((d) => d.n).filter((n) => n > 0);
  const most = counts.reduce((a, b) => Math.max(a, b), 2);
  const least = counts.reduce((a, b) => Math.min(a, b), most);
  const domain = [Math.max(0.8, least * 0.8), most * 1.3];
  const ticks = answerTicks(domain, least);
  const labelled = spread(flagged, "bias", width < 520 ? 4 : MOST_LABELS, width < 520 ? 0.2 : 0.06);
  return {
    width, height: Math.min(460, Math.max(320, width * 0.45)), marginLeft: 56, marginRight: 44, marginBottom: 46, marginTop: 60,
    x: { domain: [1.02, -1.02], label: null }, y: { type: "log", domain, label: null },
    opacity: { type: "log", range: [0.15, 0.95] },
    marks: [
      gridX({ ...grid, ticks: 5 }), gridY(ticks, { ...grid }),
      ruleX([0], { stroke: "var(--muted)" }),
      axisX({ ...AXIS, ticks: width < 520 ? [1, 0, -1] : [1, 0.5, 0, -0.5, -1], tickFormat: (d) => (d === 0 ? "even-handed" : d === 1 ? "always left" : d === -1 ? "always right" : "0.5"), label: null }),
      // As text rather than format: of a logarithmic axis the library leaves out what is no power of ten.
      axisY(ticks, { ...AXIS, text: (d) => d.toLocaleString("en"), label: "answers" }),
      cloud.length ? hexagon(cloud, hexbin({ fillOpacity: "count" }, { x: "bias", y: "n", fill: "var(--calm)", binWidth: 12 })) : null,
      ...["wait", "calm"].map((kind) => dot(others.filter((d) => d.kind === kind), { x: "bias", y: "n", r: 3.5, symbol: SYMBOL[kind], fill: kind === "wait" ? "none" : COLOUR[kind], fillOpacity: 0.55, stroke: COLOUR[kind] })),
      ...["lean", "always"].map((kind) => dot(flagged.filter((d) => d.kind === kind), { x: "bias", y: "n", r: 5, symbol: SYMBOL[kind], fill: COLOUR[kind], stroke: "var(--surface)", strokeWidth: 0.75, href: "url" })),
      text(labelled, { x: "bias", y: "n", dx: 4, dy: -9, rotate: -40, textAnchor: "start", fill: "var(--text)", fontSize: 12, href: "url", text: (d) => fit(d.name, width < 520 ? 60 : 90, 3) }),
      tip(rows, pointer({ ...tipStyle, x: "bias", y: "n", title: (d) => `${shorten(d.name, 48)}\n${d.finding}\nlean ${side(d.bias)}\n${d.left} left, ${d.right} right, n = ${d.n}` })),
    ],
  };
}

function scatter({ points: data }, width) {
  const most = Math.max(1, ...data.map((d) => Math.max(d.left, d.right)));
  const size = Math.min(width, 560);
  const pixels = size / (most * 1.05);
  const named = apart(data.filter(isFlagged), (d) => [d.left * pixels, d.right * pixels], 70, LABEL_HEIGHT, MOST_LABELS);
  return {
    width: size, height: size * 0.92, marginLeft: 52, marginBottom: 42, marginTop: 28,
    x: { domain: [0, most * 1.05], label: null }, y: { domain: [0, most * 1.05], label: null },
    marks: [
      gridX({ ...grid, ticks: 6 }), gridY({ ...grid, ticks: 6 }),
      link([0], { x1: 0, y1: 0, x2: most * 1.05, y2: most * 1.05, stroke: "var(--muted)", strokeOpacity: 0.6 }),
      axisX({ ...AXIS, ticks: 6, label: "left clicks" }),
      axisY({ ...AXIS, ticks: 6, label: "right clicks" }),
      ...KINDS.map((kind) => dot(data.filter((d) => d.kind === kind), { x: "left", y: "right", r: kind === "calm" ? 3.5 : 5, symbol: SYMBOL[kind], fill: kind === "wait" ? "none" : COLOUR[kind], fillOpacity: kind === "calm" ? 0.55 : 0.9, stroke: kind === "wait" ? COLOUR[kind] : "var(--surface)", strokeWidth: kind === "wait" ? 1.5 : 0.75, href: kind === "lean" || kind === "always" ? "url" : undefined })),
      ...["start", "end"].map((anchor) => text(named.filter((d) => (d.left > 0.7 * most) === (anchor === "end")), { x: "left", y: "right", dx: anchor === "start" ? 8 : -8, textAnchor: anchor, fill: "var(--text)", fontSize: 12, href: "url", text: (d) => fit(d.name, 80, 3) })),
      tip(data, pointer({ ...tipStyle, x: "left", y: "right", title: (d) => `${shorten(d.name, 48)}\n${d.finding}\n${d.left} left, ${d.right} right, n = ${d.n}\nlean ${side(d.bias)}` })),
    ],
  };
}

const CHARTS = { evidence, lean, path, ranking, scatter, sides };

function draw(figure) {
  const data = JSON.parse(document.getElementById(figure.dataset.source).textContent);
  const width = Math.max(280, Math.floor(figure.clientWidth));
  if (figure.dataset.drawn === String(width)) return;
  figure.dataset.drawn = String(width);
  const svg = plot(CHARTS[figure.dataset.chart](data, width));
  // The library brings a style element, which the security policy would refuse; the style sheet has its rules.
  svg.querySelectorAll("style").forEach((element) => element.remove());
  // For a screen reader the drawing is one picture; the table beside it has the numbers.
  svg.setAttribute("aria-hidden", "true");
  // Marks are links for the mouse; the keyboard finds the same links in the table.
  svg.querySelectorAll("a").forEach((element) => element.setAttribute("tabindex", "-1"));
  if (figure.dataset.chart === "scatter") svg.classList.add("square");
  const picture = document.createElement("div");
  picture.className = "drawing";
  picture.setAttribute("role", "group");
  picture.setAttribute("aria-label", figure.dataset.label);
  picture.append(svg);
  figure.querySelectorAll(".drawing").forEach((element) => element.remove());
  figure.prepend(picture);
}

function drawAll() {
  document.querySelectorAll("[data-chart]").forEach(draw);
}

drawAll();
let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 150);
});
