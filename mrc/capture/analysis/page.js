// SPDX-License-Identifier: BSD-2-Clause
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const LEFT = 88, RIGHT = 14, TOP = 12, BOTTOM = 40;
  const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [], [7, 3], [2, 3], [9, 3, 2, 3]];
  const KINDS = {u1: Uint8Array, u4: Uint32Array, f4: Float32Array};
  // Marks of the graph of time and sequence: colour, shape, size. Shapes tell apart what colours may not.
  const MARKS = {
    "sent": ["--c0", "dot", 1.1],
    "selectively acknowledged": ["--c2", "dot", 1.1],
    "cumulatively acknowledged": ["--c2", "step", 1.6],
    "lost": ["--lost", "cross", 3.6],
    "trimmed": ["--skip", "plus", 3.6],
    "sent again": ["--c1", "triangle", 3.4],
    "spurious retransmission": ["--c6", "diamond", 3.4],
    "NACK": ["--c3", "square", 2.6],
    // Reported by the endpoint: rings around what is inferred, a colour for each trigger.
    "reported hole": ["--lost", "ring", 6],
    "reported path_timer": ["--c4", "ring", 6],
    "reported local_ack_timeout": ["--c6", "ring", 6],
    "reported nack": ["--skip", "ring", 6],
    "reported other": ["--c7", "ring", 6],
    "reported spurious": ["--c6", "frame", 6],
  };

  // What was done to the fabric: colour and dash of the line across all graphs.
  const EVENTS = {cut: ["--bad", []], heal: ["--c2", [7, 4]]}, OTHER_EVENT = ["--c6", [2, 3]], NEAR_EVENT = 5;
  const OPEN = ["cross", "plus", "ring", "frame"];

  const unpacked = (text, kind) => {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new KINDS[kind](bytes.buffer);
  };
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const ticks = (low, high, most) => {
    const rough = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(each => each * power >= rough) * power, found = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    return [found, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
  };
  const timeUnit = span => span >= 2 ? [1, "s"] : span >= 2e-3 ? [1e3, "ms"] : [1e6, "µs"];
  const short = (value, digits) => value.toLocaleString("en", {minimumFractionDigits: Math.min(digits, 9), maximumFractionDigits: Math.min(digits, 9)});

  // One time axis for all plots of a direction: zooming one zooms them all.
  class View {
    constructor(start, span, events) { this.whole = [start, start + span]; this.x = this.whole; this.plots = []; this.events = events; }
    zoom(x) { this.x = x || this.whole; this.plots.forEach(plot => { if (!x) plot.y = null; plot.draw(); }); }
  }

  class Plot {
    constructor(holder, view, series, options) {
      Object.assign(this, {view, series, options, y: null});
      holder.append(this.legend(), this.box = document.createElement("div"));
      this.box.className = "plot";
      this.canvas = this.box.appendChild(document.createElement("canvas"));
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", options.label);
      this.canvas.addEventListener("mousemove", event => this.hover(event));
      this.canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
      this.canvas.addEventListener("mousedown", event => this.drag(event));
      this.canvas.addEventListener("dblclick", () => view.zoom(null));
      view.plots.push(this);
    }
    legend() {
      const holder = document.createElement("div");
      holder.className = "legend";
      for (const one of this.series) {
        const button = holder.appendChild(document.createElement("button"));
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        one.key = button.appendChild(document.createElement("canvas"));
        const thinned = one.x && one.count > one.x.length ? ` (${short(one.x.length, 0)} of ${short(one.count, 0)})` : one.count ? ` (${short(one.count, 0)})` : "";
        button.append(one.name + thinned);
        button.addEventListener("click", () => {
          one.hidden = !one.hidden;
          button.setAttribute("aria-pressed", String(!one.hidden));
          this.draw();
        });
      }
      return holder;
    }
    drawKeys() {
      for (const one of this.series) {
        const key = one.key, ratio = devicePixelRatio || 1;
        key.width = 22 * ratio; key.height = 12 * ratio; key.style.width = "22px"; key.style.height = "12px";
        const pen = key.getContext("2d");
        pen.scale(ratio, ratio);
        if (one.shape && one.shape !== "step") { const size = Math.min(Math.max(one.size, 2.6), 4.8); this.mark(pen, one, size)(11, 6); this.finish(pen, one); }
        else { this.stroke(pen, one); pen.beginPath(); pen.moveTo(1, 6); pen.lineTo(21, 6); pen.stroke(); }
      }
    }
    stroke(pen, one) { pen.strokeStyle = colour(one.colour); pen.lineWidth = one.size || 1.6; pen.setLineDash(one.dash || []); pen.lineJoin = "round"; }
    mark(pen, one, size) {
      pen.setLineDash([]); pen.fillStyle = pen.strokeStyle = colour(one.colour); pen.lineWidth = 1.5; pen.beginPath();
      const shapes = {
        dot: (x, y) => pen.rect(x - size / 2, y - size / 2, size, size),
        square: (x, y) => pen.rect(x - size, y - size, 2 * size, 2 * size),
        cross: (x, y) => { pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size); pen.moveTo(x + size, y - size); pen.lineTo(x - size, y + size); },
        plus: (x, y) => { pen.moveTo(x - size, y); pen.lineTo(x + size, y); pen.moveTo(x, y - size); pen.lineTo(x, y + size); },
        triangle: (x, y) => { pen.moveTo(x, y - size); pen.lineTo(x + size, y + size); pen.lineTo(x - size, y + size); pen.closePath(); },
        ring: (x, y) => { pen.moveTo(x + size, y); pen.arc(x, y, size, 0, 7); },
        frame: (x, y) => pen.rect(x - size, y - size, 2 * size, 2 * size),
        diamond: (x, y) => { pen.moveTo(x, y - size); pen.lineTo(x + size, y); pen.lineTo(x, y + size); pen.lineTo(x - size, y); pen.closePath(); },
      };
      return shapes[one.shape];
    }
    finish(pen, one) { if (OPEN.includes(one.shape)) pen.stroke(); else pen.fill(); }

    range() {
      if (this.y) return this.y;
      let low = this.options.fromZero ? 0 : Infinity, high = -Infinity;
      const [from, to] = this.view.x;
      for (const one of this.series) {
        if (one.hidden) continue;
        for (let i = 0; i < one.y.length; i++) {
          const value = one.y[i], top = one.high ? one.high[i] : value;
          // Neighbours of what is in view count too: lines lead to them.
          if ((one.x[i + 1] ?? one.x[i]) < from || (one.x[i - 1] ?? one.x[i]) > to || value !== value) continue;
          if (value < low) low = value;
          if (top > high) high = top;
        }
      }
      if (high < low) [low, high] = [0, 1];
      const room = (high - low) * .05 || 1;
      return [this.options.fromZero ? 0 : low - room, high + room];
    }

    draw() {
      const ratio = devicePixelRatio || 1, width = this.box.clientWidth, height = this.options.height;
      if (!width) return;
      Object.assign(this, {width, height});
      this.canvas.width = width * ratio; this.canvas.height = height * ratio; this.canvas.style.height = height + "px";
      const pen = this.canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
      this.shownY = this.range();
      const [x0, x1] = this.view.x, [y0, y1] = this.shownY;
      this.toX = x => LEFT + (x - x0) / (x1 - x0) * (width - LEFT - RIGHT);
      this.toY = y => height - BOTTOM - (y - y0) / (y1 - y0) * (height - TOP - BOTTOM);
      this.axes(pen);
      pen.save();
      pen.beginPath(); pen.rect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM); pen.clip();
      for (const one of this.series) if (!one.hidden) this.drawSeries(pen, one, x0, x1);
      this.drawEvents(pen, x0, x1);
      pen.restore();
      this.drawKeys();
    }
    drawEvents(pen, x0, x1) {
      let free = -Infinity;
      pen.font = '11px system-ui, "DejaVu Sans", sans-serif'; pen.textAlign = "left"; pen.textBaseline = "top"; pen.lineWidth = 1.2;
      for (const one of this.view.events) {
        if (one.x < x0 || one.x > x1) continue;
        const [name, dash] = EVENTS[one.event] || OTHER_EVENT, x = Math.round(this.toX(one.x)) + .5, width = pen.measureText(one.label).width;
        pen.setLineDash(dash); pen.strokeStyle = colour(name);
        pen.beginPath(); pen.moveTo(x, TOP); pen.lineTo(x, this.height - BOTTOM); pen.stroke();
        // Named where there is room; hovering names them all.
        if (x < free || x + width + 6 > this.width - RIGHT) continue;
        pen.globalAlpha = .8; pen.fillStyle = colour("--paper"); pen.fillRect(x + 2, TOP + 2, width + 4, 14);
        pen.globalAlpha = 1; pen.fillStyle = colour(name); pen.fillText(one.label, x + 4, TOP + 3);
        free = x + width + 10;
      }
    }
    drawSeries(pen, one, x0, x1) {
      if (one.shape && one.shape !== "step") {
        const seen = [];
        for (let i = 0; i < one.x.length; i++) if (one.x[i] >= x0 && one.x[i] <= x1) seen.push(i);
        // Few marks are large; many would hide each other.
        const size = one.shape === "dot" ? seen.length < 3000 ? 2.4 : one.size : one.size * (seen.length > 1500 ? .45 : seen.length > 300 ? .7 : 1);
        const mark = this.mark(pen, one, size);
        for (const i of seen) mark(this.toX(one.x[i]), this.toY(one.y[i]));
        this.finish(pen, one);
        return;
      }
      if (one.high) {
        pen.save(); pen.fillStyle = colour(one.colour); pen.globalAlpha = .16; pen.beginPath();
        for (let i = 0; i < one.x.length; i++) pen.lineTo(this.toX(one.x[i]), this.toY(one.high[i]));
        for (let i = one.x.length - 1; i >= 0; i--) pen.lineTo(this.toX(one.x[i]), this.toY(one.low[i]));
        pen.closePath(); pen.fill(); pen.restore();
      }
      this.stroke(pen, one);
      pen.beginPath();
      let down = false, last = 0, before = 0;
      for (let i = 0; i < one.x.length; i++) {
        if (one.y[i] !== one.y[i]) continue;
        const x = this.toX(one.x[i]), y = this.toY(one.y[i]);
        // Over a long silence nothing is known, so no line leads across it.
        if (!down || one.gaps && i - before > 6) pen.moveTo(x, y);
        else { if (one.shape === "step") pen.lineTo(x, last); pen.lineTo(x, y); }
        down = true; last = y; before = i;
      }
      pen.stroke();
      // A value between two gaps makes no line.
      pen.fillStyle = colour(one.colour);
      for (let i = 0; i < one.x.length; i++) {
        if (one.y[i] !== one.y[i] || one.y[i - 1] === one.y[i - 1] && i || one.y[i + 1] === one.y[i + 1] && i + 1 < one.x.length) continue;
        pen.beginPath(); pen.arc(this.toX(one.x[i]), this.toY(one.y[i]), 3, 0, 7); pen.fill();
      }
    }
    axes(pen) {
      const {width, height} = this, [x0, x1] = this.view.x, [y0, y1] = this.shownY;
      const [factor, unit] = timeUnit(x1 - x0);
      pen.strokeStyle = colour("--grid"); pen.fillStyle = colour("--soft"); pen.lineWidth = 1; pen.setLineDash([]);
      pen.textBaseline = "middle"; pen.textAlign = "right";
      if (this.options.yTitle) {
        const [found, digits] = ticks(y0, y1, 6);
        for (const at of found) {
          const y = Math.round(this.toY(at)) + .5;
          pen.beginPath(); pen.moveTo(LEFT, y); pen.lineTo(width - RIGHT, y); pen.stroke();
          pen.fillText(short(at, digits), LEFT - 7, y);
        }
      }
      pen.textBaseline = "top"; pen.textAlign = "center";
      const [found, digits] = ticks(x0 * factor, x1 * factor, Math.max(3, Math.floor(width / 130)));
      for (const at of found) {
        const x = Math.round(this.toX(at / factor)) + .5;
        pen.beginPath(); pen.moveTo(x, TOP); pen.lineTo(x, height - BOTTOM + 4); pen.stroke();
        pen.fillText(short(at, digits), x, height - BOTTOM + 7);
      }
      pen.fillText(`time since the capture began (${unit})`, (LEFT + width - RIGHT) / 2, height - 15);
      pen.save(); pen.translate(12, (TOP + height - BOTTOM) / 2); pen.rotate(-Math.PI / 2); pen.textBaseline = "middle";
      pen.fillText(this.options.yTitle || "", 0, 0); pen.restore();
      pen.strokeStyle = colour("--line");
      pen.strokeRect(LEFT + .5, TOP + .5, width - LEFT - RIGHT, height - TOP - BOTTOM);
    }

    nearest(px, py) {
      let best = null, distance = 24 * 24;
      for (const one of this.series) {
        if (one.hidden) continue;
        for (let i = 0; i < one.x.length; i++) {
          const dx = this.toX(one.x[i]) - px;
          if (dx > 24 || dx < -24 || one.y[i] !== one.y[i]) continue;
          const dy = this.toY(one.y[i]) - py, square = dx * dx + dy * dy;
          if (square < distance) { distance = square; best = [one, i]; }
        }
      }
      return best;
    }
    hover(event) {
      if (!this.toX) return;
      const at = this.canvas.getBoundingClientRect(), found = this.nearest(event.clientX - at.left, event.clientY - at.top);
      this.say(event, [this.eventsAt(event.clientX - at.left), found && this.words(...found)].filter(Boolean).join("\n\n"));
    }
    eventsAt(px) {
      const [factor, unit] = timeUnit(this.view.x[1] - this.view.x[0]);
      const near = this.view.events.filter(one => Math.abs(this.toX(one.x) - px) <= NEAR_EVENT).slice(0, 4);
      return near.map(one => `${short(one.x * factor, 3)} ${unit}: ${one.text}`).join("\n");
    }
    words(one, i) {
      const [factor, unit] = timeUnit(this.view.x[1] - this.view.x[0]);
      const packet = one.n ? `\npacket ${one.n[i]}` : "";
      const band = one.high ? `\nbins from ${this.options.value(one.low[i])} to ${this.options.value(one.high[i])}` : "";
      return `${one.name}\n${short(one.x[i] * factor, 3)} ${unit}\n${this.options.value(one.y[i])}${band}${packet}`;
    }
    say(event, words) {
      tip.hidden = !words;
      if (!words) return;
      tip.textContent = words;
      tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
      tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
    }
    drag(event) {
      const at = this.canvas.getBoundingClientRect(), begin = [event.clientX - at.left, event.clientY - at.top];
      const pen = this.canvas.getContext("2d");
      let end = begin;
      const both = () => this.options.zoomBoth && Math.abs(end[1] - begin[1]) > 12;
      const move = each => {
        end = [each.clientX - at.left, each.clientY - at.top];
        this.draw();
        pen.fillStyle = colour("--c0"); pen.globalAlpha = .15;
        if (both()) pen.fillRect(begin[0], begin[1], end[0] - begin[0], end[1] - begin[1]);
        else pen.fillRect(begin[0], TOP, end[0] - begin[0], this.height - TOP - BOTTOM);
        pen.globalAlpha = 1;
      };
      const up = () => {
        removeEventListener("mousemove", move); removeEventListener("mouseup", up);
        if (Math.abs(end[0] - begin[0]) < 5) return;
        const [x0, x1] = this.view.x, [y0, y1] = this.shownY;
        const inX = x => Math.min(x1, Math.max(x0, x0 + (x - LEFT) / (this.width - LEFT - RIGHT) * (x1 - x0)));
        const inY = y => y0 + (this.height - BOTTOM - y) / (this.height - TOP - BOTTOM) * (y1 - y0);
        if (both()) this.y = [inY(Math.max(begin[1], end[1])), inY(Math.min(begin[1], end[1]))];
        this.view.zoom([inX(Math.min(begin[0], end[0])), inX(Math.max(begin[0], end[0]))]);
      };
      addEventListener("mousemove", move); addEventListener("mouseup", up);
    }
  }

  // A lane a path, its name above it, coloured by the share of the time in a state.
  const LANE = 31, NAME = 15;
  class Lanes extends Plot {
    constructor(holder, view, lanes, options) {
      super(holder, view, [], {...options, height: TOP + BOTTOM + LANE * lanes.length + 4});
      this.lanes = lanes;
      const legend = holder.querySelector(".legend");
      for (const [name, words] of [["--good", "GOOD"], ["--skip", "SKIP"], ["--bad", "ASSUMED_BAD or DENIED"]]) {
        const key = legend.appendChild(document.createElement("span"));
        key.className = "key";
        const box = key.appendChild(document.createElement("span"));
        box.className = "box"; box.style.background = `var(${name})`;
        key.append(words);
      }
    }
    range() { return [0, 1]; }
    axes(pen) {
      super.axes(pen);
      const {width} = this, [from, to] = this.view.whole, count = this.lanes[0].bad.length;
      pen.save();
      pen.beginPath(); pen.rect(LEFT + 1, TOP, width - LEFT - RIGHT - 1, LANE * this.lanes.length); pen.clip();
      pen.textAlign = "left"; pen.textBaseline = "middle"; pen.font = '11px ui-monospace, "DejaVu Sans Mono", monospace';
      this.lanes.forEach((lane, index) => {
        const top = TOP + LANE * index, y = top + NAME + 1, height = LANE - NAME - 2;
        pen.globalAlpha = 1; pen.fillStyle = colour("--soft"); pen.fillText(lane.name, LEFT + 6, top + NAME / 2 + 1);
        pen.fillStyle = colour("--good"); pen.fillRect(LEFT, y, width, height);
        // SKIP fills the lower half only, so that the two differ without colour.
        for (const [name, values, part] of [["--skip", lane.skip, .5], ["--bad", lane.bad, 1]]) {
          pen.fillStyle = colour(name);
          for (let i = 0; i < count; i++) {
            if (!values[i]) continue;
            const x = Math.round(this.toX(from + (to - from) * i / count)), next = Math.round(this.toX(from + (to - from) * (i + 1) / count));
            pen.globalAlpha = .3 + .7 * values[i] / 255;
            pen.fillRect(x, y + height * (1 - part), Math.max(1, next - x), height * part);
          }
        }
        pen.globalAlpha = 1;
      });
      pen.restore();
    }
    hover(event) {
      const at = this.canvas.getBoundingClientRect(), [x0, x1] = this.view.x, [from, to] = this.view.whole;
      const lane = this.lanes[Math.floor((event.clientY - at.top - TOP) / LANE)];
      const time = x0 + (event.clientX - at.left - LEFT) / (this.width - LEFT - RIGHT) * (x1 - x0);
      const bin = lane && Math.floor((time - from) / (to - from) * lane.bad.length);
      if (!lane || time < x0 || time > x1 || bin >= lane.bad.length) { tip.hidden = true; return; }
      const share = value => Math.round(value / 2.55) + " %", [factor, unit] = timeUnit(x1 - x0);
      const events = this.eventsAt(event.clientX - at.left);
      this.say(event, `${events && events + "\n\n"}${lane.name}\n${short(time * factor, 3)} ${unit}\nASSUMED_BAD ${share(lane.bad[bin])}, SKIP ${share(lane.skip[bin])} of this time`);
    }
  }

  const binned = (y, start, span) => Float64Array.from(y, (_, i) => start + span * (i + .5) / y.length);

  const build = (details, one) => {
    const view = new View(one.start_s, one.span_s, one.events), part = name => details.querySelector(`[data-plot="${name}"]`);
    const timed = (all, kind) => all.map((line, index) => {
      const y = unpacked(line.y, kind);
      const last = line.name === "all planes" || line.name === "all other paths";
      return {name: line.name, y, low: line.low && unpacked(line.low, kind), high: line.high && unpacked(line.high, kind), x: binned(y, one.start_s, one.span_s), colour: last ? "--c7" : `--c${index % 7}`, dash: last ? [2, 2] : DASHES[index % 8]};
    });
    const plots = [];
    if (one.sequence.length) plots.push(new Plot(part("sequence"), view, one.sequence.map(line => {
      const [name, shape, size] = MARKS[line.name], ticks = unpacked(line.x, "u4");
      return {name: line.label || line.name, count: line.count, colour: name, shape, size, x: Float64Array.from(ticks, each => one.start_s + one.span_s * each / 0xFFFFFFFF), y: unpacked(line.y, "u4"), n: line.n && unpacked(line.n, "u4")};
    }), {height: 420, yTitle: "PSN, counted from the first", zoomBoth: true, label: "time and sequence", value: each => `PSN + ${short(each, 0)}`}));
    if (one.goodput.length) plots.push(new Plot(part("goodput"), view, timed(one.goodput, "f4"), {height: 240, yTitle: "goodput (Gbit/s)", fromZero: true, label: "goodput over time", value: each => `${each.toPrecision(4)} Gbit/s`}));
    if (one.rtt.length) plots.push(new Plot(part("rtt"), view, timed(one.rtt, "f4").map(line => Object.assign(line, {gaps: true})), {height: 260, yTitle: "RTT (µs)", fromZero: true, label: "round trips over time", value: each => `${short(each, 1)} µs`}));
    if (one.losses.length) plots.push(new Plot(part("losses"), view, timed(one.losses, "f4").map(line => Object.assign(line, {gaps: true, shape: "step", colour: line.name === "lost" ? "--lost" : "--skip", dash: line.name === "lost" ? [] : [7, 3]})), {height: 200, yTitle: "lost or trimmed (%)", fromZero: true, label: "losses over time", value: each => `${each.toPrecision(3)} %`}));
    if (one.states.length) plots.push(new Lanes(part("states"), view, one.states.map(lane => ({name: lane.name, bad: unpacked(lane.bad, "u1"), skip: unpacked(lane.skip, "u1")})), {label: "path states over time"}));
    plots.forEach(plot => plot.draw());
    return view;
  };

  const views = new Map();
  document.querySelectorAll("details.direction").forEach((details, index) => {
    const show = () => { if (details.open && data[index] && !views.has(index)) views.set(index, build(details, data[index])); };
    details.addEventListener("toggle", show);
    show();
  });
  const redraw = () => views.forEach(view => view.plots.forEach(plot => plot.draw()));
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Milliseconds until everything was drawn: for those who test it.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
