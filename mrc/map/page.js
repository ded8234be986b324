// SPDX-License-Identifier: BSD-2-Clause
"use strict";
const SVG = "http://www.w3.org/2000/svg", EVERY_MS = 1000, PATIENCE_MS = 5000;
const byId = (id) => document.getElementById(id);
let answeredAt = Date.now();

function element(space, name, attributes, text) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const percent = (value) => (value >= 99.5 ? "100" : value >= 10 ? value.toFixed(0) : value.toFixed(value >= 1 ? 1 : 2)) + " %";
const clock = (ns) => new Date(ns / 1e6).toLocaleString("sv").slice(5);
function span(ns) {
  const seconds = Math.max(0, ns / 1e9);
  if (seconds < 90) return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
  return seconds < 5400 ? (seconds / 60).toFixed(0) + " min" : (seconds / 3600).toFixed(1) + " h";
}

function drawPlane(map, plane, marks, agents) {
  const spines = map.spines || 0, widest = Math.max(map.leaves, spines, map.leaves * map.hosts_per_leaf * 0.62);
  const step = Math.max(74, Math.min(130, 900 / widest)), width = widest * step + 20, height = 250;
  const svg = element(SVG, "svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `plane ${plane}`});
  const spread = (count, number) => width * (number + 0.5) / count;
  const at = {};
  for (let s = 0; s < spines; s++) at[`p${plane}s${s}`] = [spread(spines, s), 24];
  for (let l = 0; l < map.leaves; l++) at[`p${plane}l${l}`] = [spread(map.leaves, l), 150];
  const hosts = map.leaves * map.hosts_per_leaf;
  for (let h = 0; h < hosts; h++) at[`h${h}`] = [spread(hosts, h), 226];
  const labels = [], lines = [];
  const cable = (lower, upper) => {
    const name = `${lower}-${upper}`, mark = marks.get(name), [x1, y1] = at[lower], [x2, y2] = at[upper];
    const state = mark ? mark.state : "";
    // Between leaves that are not neighbours in the picture a cable goes around those between them.
    const around = y1 === y2 && Math.abs(x2 - x1) > 1.5 * width / map.leaves;
    const shape = around ? {d: `M${x1} ${y1}Q${(x1 + x2) / 2} 10 ${x2} ${y2}`, fill: "none"} : {x1, y1, x2, y2};
    const line = element(SVG, around ? "path" : "line", {...shape, class: state, "data-name": name});
    line.append(element(SVG, "title", {}, mark ? `${name}: ${mark.words}` : name));
    // What is wrong lies on top.
    state ? lines.push(line) : lines.unshift(line);
    if (mark && mark.loss) {
      const arrow = mark.toward.length === 1 ? (mark.toward[0] === upper ? " \u2191" : " \u2193") : "";
      // Beside the line, where fewest others cross it.
      const part = y1 > 200 ? 0.5 : 0.32, length = Math.hypot(x2 - x1, y2 - y1);
      const away = 9 + 20 * Math.abs(y2 - y1) / length, side = x2 < x1 ? 1 : -1;
      const x = x1 + (x2 - x1) * part + side * away * Math.abs(y2 - y1) / length;
      const y = y1 + (y2 - y1) * part - away * Math.abs(x2 - x1) / length;
      labels.push(element(SVG, "text", {x, y, class: `loss ${state}`}, mark.loss + arrow));
    }
  };
  for (const ends of map.cables) cable(...ends.map((end) => end.replace(/^p0/, `p${plane}`)));
  for (let h = 0; h < hosts; h++) cable(`h${h}`, `p${plane}l${Math.floor(h / map.hosts_per_leaf)}`);
  svg.append(...lines);
  for (const [name, [x, y]] of Object.entries(at)) {
    const mark = marks.get(name), agent = name[0] === "h" ? agents.get(name) : undefined;
    const silent = name[0] === "h" && (!agent || agent.silent);
    const half = name[0] === "h" ? 17 : 24;
    const box = element(SVG, "rect", {x: x - half, y: y - 12, width: 2 * half, height: 24, rx: 5,
      class: mark ? mark.state : silent ? "silent" : "", "data-name": name});
    box.append(element(SVG, "title", {}, `${name}: ${mark ? mark.words : silent ? "no agent reports" : "well"}`));
    svg.append(box, element(SVG, "text", {x, y}, name));
    if (mark && mark.loss) labels.push(element(SVG, "text", {x, y: y + 21, class: `loss ${mark.state}`}, mark.loss));
  }
  svg.append(...labels);
  return svg;
}

function fill(id, heads, rows, nothing) {
  const table = element(null, "table", {id});
  const row = element(null, "tr");
  for (const head of heads) row.append(element(null, "th", head.startsWith("#") ? {} : {class: "l"}, head.replace("#", "")));
  table.append(row);
  for (const cells of rows) {
    const line = element(null, "tr");
    cells.forEach((cell, number) => {
      const [text, kind] = Array.isArray(cell) ? cell : [cell, ""];
      const names = [kind, heads[number].startsWith("#") ? "" : "l"].filter(Boolean).join(" ");
      line.append(element(null, "td", names ? {class: names} : {}, text));
    });
    table.append(line);
  }
  if (!rows.length) {
    const line = element(null, "tr");
    line.append(element(null, "td", {class: "none l", colspan: heads.length}, nothing));
    table.append(line);
  }
  byId(id).replaceWith(table);
}

const lossWords = (f) => `${percent(f.loss_percent)} (${percent(f.loss_percent_low)} to ${percent(f.loss_percent_high)})`;
const partWords = (f) => f.name + (f.also.length ? ` or ${f.also.join(" or ")}` : "");
const wayWords = (f) => f.toward.length === 1 ? `toward ${f.toward[0]}` : f.toward.length ? "both ways" : "";

function show(map) {
  document.title = `${map.faults.length ? "(" + map.faults.length + ") " : ""}mrc map: ${map.fabric}`;
  byId("name").textContent = `mrc map: ${map.fabric}`;
  byId("when").textContent = clock(map.at_unix_ns);
  const verdict = byId("verdict"), reporting = map.agents.filter((each) => !each.silent).length;
  const hosts = map.leaves * map.hosts_per_leaf;
  if (map.faults.length) {
    verdict.textContent = map.faults.map((f) => `${f.name} ${f.state !== "down" ? "loses " + percent(f.loss_percent) : f.kind === "link" || f.kind === "host-port" ? "is down" : "forwards nothing"}`).join(", ");
    verdict.className = map.faults.some((f) => f.state === "down") ? "bad" : "lossy";
  } else {
    verdict.textContent = !reporting ? "no agent reports" : map.suspicions.length ? "losses, not located yet" : "nothing is wrong";
    verdict.className = "well";
  }
  const marks = new Map();
  for (const each of map.suspicions) for (const name of each.names)
    marks.set(name, {state: "suspect", words: "one of several that may be at fault", toward: []});
  for (const fault of map.faults) {
    const mark = {state: fault.state, words: `${fault.state}, loses ${lossWords(fault)} ${wayWords(fault)}`,
      loss: fault.state === "down" ? "down" : percent(fault.loss_percent), toward: fault.toward};
    marks.set(fault.name, mark);
    if (fault.kind === "plane")
      for (let l = 0; l < map.leaves; l++) marks.set(`p${fault.plane}l${l}`, {...mark, loss: ""});
  }
  const agents = new Map(map.agents.map((each) => [each.host, each]));
  const panels = [];
  for (let plane = 0; plane < map.planes; plane++) {
    const panel = element(null, "section", {class: "plane"});
    panel.append(element(null, "h3", {}, `Plane ${plane}`), drawPlane(map, plane, marks, agents));
    panels.push(panel);
  }
  byId("planes").replaceChildren(...panels);
  fill("faults", ["part", "what", "#loss, 95 % interval", "direction", "since", "#for", "#named after"], map.faults.map((f) => [
    [partWords(f), f.state], f.kind === "host-port" ? "host port" : f.kind, lossWords(f), wayWords(f), clock(f.since_unix_ns),
    span(map.at_unix_ns - f.since_unix_ns), span(f.named_unix_ns - f.since_unix_ns)]),
    map.suspicions.length ? "one of " + map.suspicions.map((s) => s.names.join(", ")).join("; ") + ": not enough is known yet" : "none");
  fill("past", ["part", "what", "#loss at last", "since", "until", "#for"], map.past.map((f) => [
    partWords(f), f.withdrawn ? "withdrawn: it was another part" : f.kind === "host-port" ? "host port" : f.kind,
    percent(f.loss_percent), clock(f.since_unix_ns), clock(f.until_unix_ns), span(f.until_unix_ns - f.since_unix_ns)]), "none");
  const sum = (agent, key) => agent.planes.reduce((total, each) => total + each[key], 0);
  fill("agents", ["host", "state", "#probes/s", "#came back", "#lost", "#say nothing", "#late", "#foreign", "#round trip", "#CPU"],
    map.agents.map((a) => {
      const rtts = a.planes.map((each) => each.rtt_us).filter((each) => each !== null);
      return [a.host, a.silent ? ["silent", "lossy"] : "reports", a.rate_per_s, sum(a, "back"), sum(a, "lost"), a.void, a.late,
        a.foreign, rtts.length ? Math.max(...rtts) + " \u00b5s" : "", a.cpu_percent.toFixed(1) + " %"];
    }), `none of ${hosts} hosts reports: mrc map agent --all --name ${map.fabric}`);
}

async function look() {
  try {
    const answer = await fetch("map.json", {signal: AbortSignal.timeout(PATIENCE_MS)});
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    answeredAt = Date.now();
    byId("gone").style.display = "none";
    document.body.dataset.updates = Number(document.body.dataset.updates || 0) + 1;
  } catch (error) {
    byId("gone").textContent = `No answer from mrc map serve for ${span((Date.now() - answeredAt) * 1e6)}: what is shown is old.`;
    byId("gone").style.display = "block";
  }
  setTimeout(look, EVERY_MS);
}
look();
