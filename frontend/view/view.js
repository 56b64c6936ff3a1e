"use strict";
/* Draws the graphs of the page's data. A graph is laid out on its own when it is unfolded (layers by longest
 * path, order by barycentres); graphs stand in rows by their distance from where calls begin. Text of the
 * program is only ever set as text. The part of the address after # says what to show:
 * #search=Add&select=12&fold=3,fib&unfold=all&theme=dark; `select` also takes g3, a graph. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const svg = $("canvas"), world = $("world");
  const PARAM = 0, APPLY = 1, CALL = 2;
  const CHAR = 7.3, SMALL = 6.4, PAD = 9, LAYER_GAP = 34, NODE_GAP = 16, HEAD = 30, MARGIN = 18;
  const OPEN_AT_FIRST = 1500, MAX_DUMMIES = 3000, MAX_RESULTS = 60, SHOWN = 34;

  // ---- the program ----
  const graphs = new Map(), nodes = new Map(), users = new Map();
  for (const g of data.graphs) {
    graphs.set(g.id, g);
    g.folded = !g.open;
    g.calls = new Set();
    g.callers = new Set();
    for (const n of g.nodes) nodes.set(n.i, Object.assign(n, { graph: g, x: n.x || [] }));
  }
  const addUse = (of, use) => users.has(of) ? users.get(of).push(use) : users.set(of, [use]);
  for (const n of nodes.values())
    n.x.forEach((r, i) => {
      if (typeof r === "number") addUse(r, { node: n, input: i });
      else if (r[0] === "g" && graphs.has(r[1])) link(n.graph, graphs.get(r[1]));
    });
  for (const g of data.graphs)
    if (Array.isArray(g.result) && g.result[0] === "g" && graphs.has(g.result[1])) link(g, graphs.get(g.result[1]));
  function link(from, to) { from.calls.add(to); to.callers.add(from); }

  /* The name of input i of a node: of the op's table, or the attribute that the node gives. */
  function inputName(n, i) {
    if (n.k === CALL) return i ? `argument ${i}` : "callee";
    const op = data.ops[n.o], given = (n.a || []).filter((a) => a.length === 1).map((a) => a[0]);
    const arg = n.x.length - given.length;
    if (i >= arg) return given[i - arg];
    if (!op || !op.in.length) return `${i + 1}`;
    return i < op.in.length ? op.in[i] : `${op.in[op.in.length - 1]} ${i + 2 - op.in.length}`;
  }
  const port = (n, i) => n.k === CALL ? i : i + 1;
  const place = (n) => n.l || "";
  const typed = (n) => n.t ? `${n.n}: ${n.t}` : n.n;
  const short = (s, n = SHOWN) => { const c = [...s]; return c.length > n ? c.slice(0, n - 1).join("") + "\u2026" : s; };

  // ---- items: what stands in a graph ----
  function textWidth(s, char) {
    let w = 0;
    for (const c of s) w += c.codePointAt(0) > 0x2e80 ? 2 * char : char;
    return w;
  }
  function item(kind, title, sub, extra) {
    const it = Object.assign({ kind, title: short(title), sub: sub.map((s) => short(s)), into: [], out: [] }, extra);
    it.ports = it.node ? it.node.x.length : 0;
    it.w = Math.max(textWidth(it.title, CHAR), ...it.sub.map((s) => textWidth(s, SMALL)), Math.min(it.ports, 60) * 13) + 2 * PAD;
    it.h = 24 + it.sub.length * 13 + (it.ports > 1 ? 9 : 0);
    return it;
  }
  function nodeItem(n) {
    if (n.k === PARAM) return item("param", n.n, n.t ? [n.t] : [], { node: n });
    const attrs = (n.a || []).filter((a) => a.length === 2).map((a) => `${a[0]}=${a[1]}`);
    const kind = n.e ? "effect" : n.k === CALL ? "call" : "cnode";
    return item(kind, n.o, [typed(n)].concat(attrs.slice(0, 3), attrs.length > 3 ? ["\u2026"] : []), { node: n });
  }
  function connect(from, to, input, cls) {
    const e = { from, to, input, cls };
    from.out.push(e);
    to.into.push(e);
    return e;
  }
  /* The items and edges of one graph; edges from nodes of other graphs are drawn above all graphs. */
  function makeItems(g) {
    const byNode = new Map(), fns = new Map(), items = [], outside = [];
    const add = (it) => (items.push(it), it);
    for (const n of g.nodes) byNode.set(n.i, add(nodeItem(n)));
    const source = (r) => {
      if (typeof r === "number") return byNode.get(r);
      if (r[0] === "c") return add(item("const", r[1], []));
      if (r[0] === "x") return add(item("outside", r[1], []));
      if (!fns.has(r[1])) fns.set(r[1], add(item("fn", r[2], [], { fn: r[1] })));
      return fns.get(r[1]);
    };
    const use = (r, to, input, cls) => {
      const from = source(r);
      if (from) connect(from, to, input, cls);
      else outside.push({ from: r, to, input });
    };
    for (const n of g.nodes)
      n.x.forEach((r, i) => use(r, byNode.get(n.i), i, n.k === CALL && i === 0 ? "callee" : ""));
    if (g.result !== undefined) use(g.result, add(item("result", "return", [])), 0, "");
    return { items, byNode, fns, outside };
  }

  // ---- layers ----
  function assignLayers(items) {
    const wait = new Map(items.map((it) => [it, it.into.length]));
    const ready = items.filter((it) => !it.into.length);
    for (const it of items) it.layer = 0;
    for (let i = 0; i < ready.length; i++)
      for (const e of ready[i].out) {
        e.to.layer = Math.max(e.to.layer, ready[i].layer + 1);
        wait.set(e.to, wait.get(e.to) - 1);
        if (!wait.get(e.to)) ready.push(e.to);
      }
    for (const it of items) // leaves stand close to what uses them
      if (!it.into.length && it.out.length && it.kind !== "param")
        it.layer = Math.max(0, Math.min(...it.out.map((e) => e.to.layer)) - 1);
    const last = items.reduce((m, it) => Math.max(m, it.layer), 0);
    for (const it of items) if (it.kind === "result") it.layer = Math.max(it.layer, last);
    const layers = Array.from({ length: last + 1 }, () => []);
    for (const it of items) layers[it.layer].push(it);
    return layers;
  }
  /* Long edges pass through a narrow place in each layer between, as far as there are not too many. */
  function addDummies(layers, items) {
    let count = 0;
    for (const it of items)
      for (const e of it.out) {
        e.via = [];
        const span = e.to.layer - it.layer - 1;
        if (span <= 0 || count + span > MAX_DUMMIES) continue;
        count += span;
        let before = it;
        for (let l = it.layer + 1; l < e.to.layer; l++) {
          const d = { dummy: true, w: 10, h: 0, layer: l, up: [before], down: [] };
          if (before.dummy) before.down.push(d);
          layers[l].push(d);
          e.via.push(d);
          before = d;
        }
        before.down.push(e.to);
      }
    const end = (e, down) => down ? e.via[0] || e.to : e.via[e.via.length - 1] || e.from;
    for (const it of items) {
      it.up = it.into.map((e) => end(e, false));
      it.down = it.out.map((e) => end(e, true));
    }
  }
  function orderLayers(layers) {
    const number = (layer) => layer.forEach((it, i) => { it.at = i; });
    layers.forEach(number);
    const sweep = (layer, side) => {
      for (const it of layer) {
        const around = it[side];
        it.key = around.length ? around.reduce((s, o) => s + o.at, 0) / around.length : it.at;
      }
      layer.sort((a, b) => a.key - b.key);
      number(layer);
    };
    for (let round = 0; round < 6; round++) {
      for (let l = 1; l < layers.length; l++) sweep(layers[l], "up");
      for (let l = layers.length - 2; l >= 0; l--) sweep(layers[l], "down");
    }
  }
  /* Each item wants to stand in the middle of its neighbours; order and distances are kept. */
  function placeX(layer, want) {
    const gap = (a, b) => (a.w + b.w) / 2 + NODE_GAP;
    const left = [], right = [];
    layer.forEach((it, i) => { left[i] = i ? Math.max(want[i], left[i - 1] + gap(layer[i - 1], it)) : want[i]; });
    for (let i = layer.length - 1; i >= 0; i--)
      right[i] = i < layer.length - 1 ? Math.min(want[i], right[i + 1] - gap(layer[i], layer[i + 1])) : want[i];
    layer.forEach((it, i) => { it.x = (left[i] + right[i]) / 2; });
  }
  function placeAll(layers) {
    for (const layer of layers) placeX(layer, layer.map((it, i) => i));
    const middle = (it, side) => it[side].length ? it[side].reduce((s, o) => s + o.x, 0) / it[side].length : it.x;
    for (let round = 0; round < 8; round++) {
      for (let l = 1; l < layers.length; l++) placeX(layers[l], layers[l].map((it) => middle(it, "up")));
      for (let l = layers.length - 2; l >= 0; l--) placeX(layers[l], layers[l].map((it) => middle(it, "down")));
    }
  }
  function layoutGraph(g) {
    if (g.layout) return g.layout;
    const made = makeItems(g), layers = assignLayers(made.items);
    addDummies(layers, made.items);
    orderLayers(layers);
    placeAll(layers);
    let y = HEAD + MARGIN, x0 = Infinity, x1 = -Infinity;
    for (const layer of layers) {
      const h = layer.reduce((m, it) => Math.max(m, it.h), 0);
      for (const it of layer) {
        it.y = y + (h - it.h) / 2;
        x0 = Math.min(x0, it.x - it.w / 2);
        x1 = Math.max(x1, it.x + it.w / 2);
      }
      y += h + LAYER_GAP;
    }
    if (x0 > x1) x0 = x1 = 0;
    const w = Math.max(x1 - x0 + 2 * MARGIN, headWidth(g)), shift = (w - (x1 - x0)) / 2 - x0;
    for (const layer of layers) for (const it of layer) it.x += shift;
    return (g.layout = Object.assign(made, { w, h: Math.max(y - LAYER_GAP + MARGIN, HEAD + MARGIN) }));
  }

  // ---- drawing ----
  function el(name, attrs, parent, text) {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    if (text !== undefined) e.textContent = text;
    if (parent) parent.appendChild(e);
    return e;
  }
  const graphTitle = (g) => short(g.name + (g.t ? " \u2192 " + g.t : ""), 60);
  const counted = (g) => g.folded || g.nodes.length === g.total ? `${g.total}` : `${g.nodes.length} of ${g.total}`;
  const headWidth = (g) => textWidth(graphTitle(g), 8) + textWidth(counted(g), SMALL) + 66;

  function portX(it, i) { return it.x + it.w * ((i + 0.5) / Math.max(it.ports, 1) - 0.5); }
  function curve(points) {
    let d = `M${points[0][0].toFixed(1)} ${points[0][1].toFixed(1)}`;
    for (let i = 1; i < points.length; i++) {
      const [ax, ay] = points[i - 1], [bx, by] = points[i], bend = Math.max(14, Math.abs(by - ay) * 0.45);
      d += `C${ax.toFixed(1)} ${(ay + bend).toFixed(1)} ${bx.toFixed(1)} ${(by - bend).toFixed(1)} ${bx.toFixed(1)} ${by.toFixed(1)}`;
    }
    return d;
  }
  function drawEdge(parent, e) {
    const to = e.to, points = [[e.from.x, e.from.y + e.from.h]];
    for (const d of e.via) points.push([d.x, d.y]);
    points.push([to.ports ? portX(to, e.input) : to.x, to.y]);
    e.path = el("path", { class: "edge " + e.cls, d: curve(points) }, parent);
  }
  function drawItem(parent, it) {
    const attrs = { class: "node " + it.kind, transform: `translate(${it.x.toFixed(1)} ${it.y.toFixed(1)})` };
    if (it.node) attrs["data-id"] = it.node.i;
    if (it.fn !== undefined) attrs["data-fn"] = it.fn;
    const e = (it.element = el("g", attrs, parent)), round = it.kind === "fn" ? it.h / 2 : it.kind === "const" ? 3 : 7;
    el("rect", { class: "box", x: -it.w / 2, y: 0, width: it.w, height: it.h, rx: round }, e);
    const top = it.ports > 1 ? 9 : 0;
    for (let i = 0; top && i < it.ports && i < 60; i++)
      el("text", { class: "port", x: portX(it, i) - it.x, y: 9 }, e, port(it.node, i));
    el("text", { class: "title", x: 0, y: 16 + top }, e, it.title);
    it.sub.forEach((s, i) => el("text", { class: "sub", x: 0, y: 29 + top + 13 * i }, e, s));
    if (it.node) e.addEventListener("click", () => select(it.node.i));
    else if (graphs.has(it.fn)) e.addEventListener("click", () => selectGraph(it.fn));
  }
  function drawGraph(g) {
    const old = g.element, folded = g.folded;
    const size = folded ? { w: headWidth(g), h: HEAD } : layoutGraph(g);
    g.w = size.w;
    g.h = size.h;
    const e = (g.element = el("g", { class: "graph", "data-graph": g.id, "data-folded": folded ? 1 : 0 }));
    el("rect", { class: "frame", width: g.w, height: g.h, rx: 9 }, e);
    const head = el("rect", { class: "head", x: 1, y: 1, width: g.w - 2, height: HEAD - 2, rx: 8 }, e);
    head.addEventListener("click", () => selectGraph(g.id));
    el("text", { class: "name", x: 30, y: 20 }, e, graphTitle(g));
    el("text", { class: "count", x: g.w - 12, y: 20, "text-anchor": "end" }, e, counted(g));
    const fold = el("g", { class: "fold", role: "button" }, e);
    el("rect", { x: 5, y: 5, width: 20, height: 20, rx: 5 }, fold);
    el("path", { d: folded ? "M12 10 l6 5 l-6 5 z" : "M10 12 l10 0 l-5 6 z", fill: "currentColor" }, fold);
    if (g.open) fold.addEventListener("click", () => setFolded(g, !g.folded));
    if (!folded) {
      const edges = el("g", {}, e);
      for (const it of g.layout.items) for (const edge of it.out) drawEdge(edges, edge);
      for (const it of g.layout.items) drawItem(e, it);
      const order = g.effects.map((i) => g.layout.byNode.get(i)).filter(Boolean);
      for (let i = 1; i < order.length; i++)
        el("path", { class: "edge order", d: curve([[order[i - 1].x + order[i - 1].w / 2 - 6, order[i - 1].y + order[i - 1].h], [order[i].x + order[i].w / 2 - 6, order[i].y]]) }, edges);
    }
    if (old) old.replaceWith(e);
    else world.appendChild(e);
  }
  /* Rows by distance, broken where they get wider than the whole is to be; in a row, graphs stand in the
   * order of those that refer to them. */
  function arrange() {
    const area = data.graphs.reduce((s, g) => s + (g.w + 40) * (g.h + 60), 0);
    const limit = Math.max(1100, Math.sqrt(area) * 1.5, ...data.graphs.map((g) => g.w));
    const byDepth = [];
    for (const g of data.graphs) (byDepth[g.depth] = byDepth[g.depth] || []).push(g);
    const rows = [];
    for (const level of byDepth.filter(Boolean)) {
      for (const g of level) {
        const above = [...g.callers].filter((c) => c.depth < g.depth);
        g.key = above.reduce((s, c) => s + c.at, 0) / above.length || 0;
      }
      level.sort((a, b) => a.key - b.key);
      level.forEach((g, i) => { g.at = (i + 0.5) / level.length; });
      let row = null;
      for (const g of level) {
        if (!row || row.w + 40 + g.w > limit) rows.push((row = { graphs: [], w: -40 }));
        row.graphs.push(g);
        row.w += 40 + g.w;
      }
    }
    const width = Math.max(...rows.map((r) => r.w));
    let y = 0;
    for (const row of rows) {
      let x = (width - row.w) / 2;
      for (const g of row.graphs) {
        g.x = x;
        g.y = y;
        g.element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
        x += g.w + 40;
      }
      y += Math.max(...row.graphs.map((g) => g.h)) + 60;
    }
    drawCross();
  }
  let cross = null, crossEdges = [];
  /* Edges between graphs: what is captured, and functions to their graphs. */
  function drawCross() {
    if (cross) cross.remove();
    cross = el("g", { id: "cross" }, world);
    crossEdges = [];
    for (const g of data.graphs) {
      if (g.folded) continue;
      for (const o of g.layout.outside) {
        const from = nodes.get(o.from), it = from && !from.graph.folded && from.graph.layout.byNode.get(o.from);
        if (!it) continue;
        const a = [from.graph.x + it.x, from.graph.y + it.y + it.h];
        const b = [g.x + (o.to.ports ? portX(o.to, o.input) : o.to.x), g.y + o.to.y];
        const path = el("path", { class: "edge captured", d: curve([a, b]) }, cross);
        crossEdges.push({ path, from: it, to: o.to });
      }
      for (const [id, it] of g.layout.fns) {
        const to = graphs.get(id);
        if (!to || to === g) continue;
        const a = [g.x + it.x, g.y + it.y + it.h], b = [to.x + to.w / 2, to.y];
        crossEdges.push({ path: el("path", { class: "edge link", d: curve([a, b]) }, cross), from: it, graph: to });
      }
    }
  }
  function setFolded(g, folded) {
    if (g.folded === folded || !g.open) return;
    g.folded = folded;
    drawGraph(g);
    arrange();
    mark();
  }
  function setAll(folded) {
    for (const g of data.graphs)
      if (g.open && g.folded !== folded) {
        g.folded = folded;
        drawGraph(g);
      }
    arrange();
    mark();
    fit();
  }

  // ---- moving ----
  let view = { x: 0, y: 0, k: 1 };
  const apply = () => world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.k})`);
  function zoom(factor, cx, cy) {
    const k = Math.min(4, Math.max(0.01, view.k * factor));
    view = { x: cx - ((cx - view.x) * k) / view.k, y: cy - ((cy - view.y) * k) / view.k, k };
    apply();
  }
  function fit() {
    const w = Math.max(...data.graphs.map((g) => g.x + g.w), 1), h = Math.max(...data.graphs.map((g) => g.y + g.h), 1);
    const k = Math.min(1.25, (svg.clientWidth - 40) / w, (svg.clientHeight - 40) / h);
    view = { x: (svg.clientWidth - w * k) / 2, y: Math.max(20, (svg.clientHeight - h * k) / 2), k };
    if (k < 0.05) view = { x: 20, y: 20, k: 0.3 };
    apply();
  }
  /* Moves only what is out of sight or too small to read. */
  function centre(x, y) {
    const sx = view.x + x * view.k, sy = view.y + y * view.k;
    if (view.k > 0.6 && sx > 60 && sy > 60 && sx < svg.clientWidth - 60 && sy < svg.clientHeight - 60) return;
    view.k = Math.max(view.k, 0.7);
    view.x = svg.clientWidth / 2 - x * view.k;
    view.y = svg.clientHeight / 2 - y * view.k;
    apply();
  }
  svg.addEventListener("wheel", (e) => {
    e.preventDefault();
    const r = svg.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.clientX - r.left, e.clientY - r.top);
  }, { passive: false });
  const fingers = new Map();
  svg.addEventListener("pointerdown", (e) => { fingers.set(e.pointerId, e); });
  svg.addEventListener("pointermove", (e) => {
    const was = fingers.get(e.pointerId);
    if (!was) return;
    const others = [...fingers.values()].filter((f) => f.pointerId !== e.pointerId);
    if (others.length) {
      const o = others[0], r = svg.getBoundingClientRect();
      const far = (f) => Math.hypot(f.clientX - o.clientX, f.clientY - o.clientY) || 1;
      zoom(far(e) / far(was), (e.clientX + o.clientX) / 2 - r.left, (e.clientY + o.clientY) / 2 - r.top);
    } else {
      if (!svg.classList.contains("moving") && Math.hypot(e.clientX - was.clientX, e.clientY - was.clientY) < 3) return;
      svg.setPointerCapture(e.pointerId); // from here on it is no click
      svg.classList.add("moving");
      view.x += e.clientX - was.clientX;
      view.y += e.clientY - was.clientY;
      apply();
    }
    fingers.set(e.pointerId, e);
  });
  const lift = (e) => { fingers.delete(e.pointerId); svg.classList.remove("moving"); };
  svg.addEventListener("pointerup", lift);
  svg.addEventListener("pointercancel", lift);
  svg.addEventListener("pointerleave", lift);

  // ---- selecting ----
  let selected = null; // { node } or { graph }
  const details = $("details");
  function html(name, parent, text, cls) {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    if (parent) parent.appendChild(e);
    return e;
  }
  function fact(list, name, value) {
    if (value === undefined || value === "") return;
    html("dt", list, name);
    html("dd", list, value).dataset.fact = name;
  }
  function row(parent, text, note, go) {
    const e = html(go ? "button" : "span", parent, text, "row");
    if (note) html("small", e, "  " + note);
    if (go) e.addEventListener("click", go);
    return e;
  }
  const label = (n) => (n.k === PARAM ? "" : n.o + "  ") + typed(n);
  const go = (n) => () => select(n.i, true);
  const goGraph = (g) => () => selectGraph(g.id, true);
  function inputRow(parent, n, i) {
    const r = n.x[i], note = inputName(n, i);
    let e;
    if (typeof r === "number") e = row(parent, label(nodes.get(r)), note + (nodes.get(r).graph === n.graph ? "" : `, captured from ${nodes.get(r).graph.name}`), go(nodes.get(r)));
    else if (r[0] === "g") e = row(parent, r[2], note + ", function", graphs.has(r[1]) ? goGraph(graphs.get(r[1])) : null);
    else e = row(parent, r[1], note + (r[0] === "c" ? ", constant" : ", not drawn"));
    e.dataset.input = port(n, i);
  }
  function showNode(n) {
    html("h2", details, n.k === PARAM ? n.n : n.o);
    if (n.k === APPLY && data.ops[n.o]) html("p", details, data.ops[n.o].doc);
    const list = html("dl", details);
    fact(list, "kind", n.k === PARAM ? "parameter" : n.k === CALL ? "call of a function" : "call of an operation");
    fact(list, "name", n.n);
    fact(list, "type", n.t || "not known");
    fact(list, "graph", n.graph.name);
    fact(list, "source", place(n));
    fact(list, "scope", n.s);
    fact(list, "number", "#" + n.i);
    for (const a of n.a || []) if (a.length === 2) fact(list, a[0], a[1]);
    if (n.x.length) html("h3", details, "Inputs");
    n.x.forEach((r, i) => inputRow(details, n, i));
    const uses = users.get(n.i) || [];
    html("h3", details, uses.length ? `Users (${uses.length})` : "Users");
    for (const u of uses.slice(0, 200)) {
      const e = row(details, label(u.node), inputName(u.node, u.input) + (u.node.graph === n.graph ? "" : `, in ${u.node.graph.name}`), go(u.node));
      e.dataset.user = u.node.i;
    }
    if (n.graph.result === n.i) row(details, `result of ${n.graph.name}`, "", goGraph(n.graph));
    else if (!uses.length) html("p", details, "No node that is drawn uses it.");
  }
  function showGraph(g) {
    html("h2", details, g.name);
    const list = html("dl", details);
    fact(list, "kind", "graph");
    fact(list, "result", g.t || "not known");
    fact(list, "nodes", counted(g));
    if (g.parent !== undefined) fact(list, "captures from", graphs.has(g.parent) ? graphs.get(g.parent).name : "a graph that is not drawn");
    if (!g.open) html("p", details, "Folded when the page was made: its nodes are not in it.");
    const params = g.nodes.filter((n) => n.k === PARAM);
    if (params.length) html("h3", details, "Parameters");
    for (const n of params) row(details, typed(n), "", go(n));
    if (g.calls.size) html("h3", details, "Refers to");
    for (const o of g.calls) row(details, o.name, "", goGraph(o));
    if (g.callers.size) html("h3", details, "Referred to by");
    for (const o of g.callers) row(details, o.name, "", goGraph(o));
  }
  let marked = [];
  function add(e, cls) {
    if (!e) return;
    e.classList.add(cls);
    marked.push([e, cls]);
  }
  let hits = new Set();
  function itemOf(n) { return n.graph.folded ? null : n.graph.layout.byNode.get(n.i); }
  function mark() {
    for (const [e, cls] of marked) e.classList.remove(cls);
    marked = [];
    for (const n of hits) {
      const it = itemOf(n);
      if (it) add(it.element, "hit");
    }
    if (!selected) return;
    if (selected.graph) {
      add(selected.graph.element, "selected");
      for (const c of crossEdges) if (c.graph === selected.graph) add(c.path, "hot");
      return;
    }
    const it = itemOf(selected.node);
    if (!it) return;
    add(it.element, "selected");
    for (const e of it.into.concat(it.out)) add(e.path, "hot");
    for (const c of crossEdges) if (c.from === it || c.to === it) add(c.path, "hot");
  }
  function show() {
    details.replaceChildren();
    if (!selected) html("p", details, "Click a node or the name of a graph to see what it is.");
    else if (selected.node) showNode(selected.node);
    else showGraph(selected.graph);
    mark();
  }
  function remember(what) { history.replaceState(null, "", what ? "#select=" + what : "#"); }
  function select(id, move) {
    const n = nodes.get(id);
    if (!n) return;
    selected = { node: n };
    setFolded(n.graph, false);
    show();
    const it = itemOf(n);
    if (move && it) centre(n.graph.x + it.x, n.graph.y + it.y + it.h / 2);
    remember(id);
  }
  function selectGraph(id, move) {
    const g = graphs.get(id);
    if (!g) return;
    selected = { graph: g };
    show();
    if (move) centre(g.x + g.w / 2, g.y + Math.min(g.h / 2, svg.clientHeight / 2 / view.k - 20));
    remember("g" + id);
  }
  function selectNothing() {
    selected = null;
    show();
    remember("");
  }

  // ---- searching ----
  const box = $("search"), results = $("results");
  function rank(n, q) {
    if ("#" + n.i === q) return 0;
    const name = n.n.toLowerCase(), op = (n.o || "").toLowerCase();
    if (name === q || op === q) return 1;
    if (name.startsWith(q) || op.startsWith(q)) return 2;
    if (name.includes(q) || op.includes(q)) return 3;
    return (n.t || "").toLowerCase().includes(q) || (n.s || "").toLowerCase().includes(q) ? 4 : -1;
  }
  function search(text) {
    const q = text.trim().toLowerCase(), found = [];
    results.replaceChildren();
    results.hidden = !q;
    hits = new Set();
    if (q) {
      for (const n of nodes.values()) {
        const r = rank(n, q);
        if (r >= 0) found.push([r, n]);
      }
      found.sort((a, b) => a[0] - b[0] || a[1].i - b[1].i);
      const named = data.graphs.filter((g) => g.name.toLowerCase().includes(q));
      const total = found.length + named.length;
      html("h2", results, total === 1 ? "1 match" : `${total} matches`).dataset.matches = total;
      for (const g of named.slice(0, 20)) row(results, g.name, "graph", goGraph(g));
      for (const [, n] of found.slice(0, MAX_RESULTS)) row(results, label(n), n.graph.name, go(n)).dataset.match = n.i;
      if (found.length > MAX_RESULTS) html("p", results, `and ${found.length - MAX_RESULTS} more`);
      hits = new Set(found.map((f) => f[1]));
    }
    mark();
  }
  box.addEventListener("input", () => search(box.value));
  box.addEventListener("keydown", (e) => {
    if (e.key === "Enter") { const first = results.querySelector("button"); if (first) first.click(); }
    if (e.key === "Escape") { box.value = ""; search(""); box.blur(); }
  });

  // ---- buttons, keys, the address ----
  function setTheme(t) { document.documentElement.dataset.theme = t; }
  $("fit").addEventListener("click", fit);
  $("fold-all").addEventListener("click", () => setAll(true));
  $("unfold-all").addEventListener("click", () => setAll(false));
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  const move = (x, y) => { view.x += x; view.y += y; apply(); };
  const keys = {
    "/": () => box.focus(), f: fit, Escape: selectNothing,
    "+": () => zoom(1.25, svg.clientWidth / 2, svg.clientHeight / 2), "-": () => zoom(0.8, svg.clientWidth / 2, svg.clientHeight / 2),
    ArrowLeft: () => move(80, 0), ArrowRight: () => move(-80, 0), ArrowUp: () => move(0, 80), ArrowDown: () => move(0, -80),
  };
  document.addEventListener("keydown", (e) => {
    if (e.target === box || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
  function foldThese(list, folded) {
    if (list === "all") return setAll(folded);
    for (const word of list.split(",")) {
      const g = data.graphs.find((o) => o.name === word || String(o.id) === word);
      if (g) setFolded(g, folded);
    }
    fit();
  }
  function readAddress() {
    const want = new URLSearchParams(location.hash.slice(1));
    if (want.has("theme")) setTheme(want.get("theme"));
    if (want.has("fold")) foldThese(want.get("fold"), true);
    if (want.has("unfold")) foldThese(want.get("unfold"), false);
    if (want.has("search")) { box.value = want.get("search"); search(box.value); }
    const id = want.get("select");
    if (id && id[0] === "g") selectGraph(Number(id.slice(1)), true);
    else if (id) select(Number(id), true);
  }
  window.addEventListener("hashchange", readAddress);

  // ---- start ----
  setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  let open = 0;
  for (const g of data.graphs) { // what is far from the beginning is folded when there is too much
    open += g.folded ? 0 : g.nodes.length;
    if (open > OPEN_AT_FIRST && g !== data.graphs[0]) g.folded = true;
    drawGraph(g);
  }
  arrange();
  fit();
  show();
  readAddress();
  document.body.dataset.ready = "1";
})();
