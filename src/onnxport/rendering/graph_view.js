// Draws the graph, opens and closes its modules, and tells of what the pointer is on.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("graph-data").textContent);
  const graph = GraphLayout.prepare(data), root = graph.groups[0];
  const host = document.getElementById("graph");
  const SVG = "http://www.w3.org/2000/svg", ENOUGH = 40;
  const open = new Set([0]);
  let scale = 1, found = "";

  const KINDS = [
    ["product", /^(Gemm|MatMul|Conv|ConvTranspose|Einsum|Attention|LSTM|GRU|RNN|.*MatMul.*|.*Conv.*|.*Attention.*)$/],
    ["shape", /^(Reshape|Transpose|Squeeze|Unsqueeze|Flatten|Expand|Concat|Split|Slice|Gather.*|Scatter.*|Shape|Tile|Pad|Identity|Cast|Constant.*|Range|Size)$/],
    ["norm", /^(.*Norm.*|.*Softmax|Relu|Gelu|Sigmoid|Tanh|Erf|.*elu|.*ELU|Hard.*|Swish|Mish|Clip)$/],
    ["reduce", /^(Reduce.*|.*Pool|Arg.*|TopK|CumSum)$/],
    ["flow", /^(If|Loop|Scan)$/],
    ["end", /^(input|output)$/],
  ];
  const kindOf = (op) => (KINDS.find(([, pattern]) => pattern.test(op.split("::").at(-1))) ?? ["plain"])[0];

  function element(name, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  }

  function shortened(text, most) { return text.length > most ? `${text.slice(0, most - 1)}…` : text; }

  function caption(item) {
    if (item.isNode) {
      const out = item.out[0] ?? item.in[0];
      const type = out === undefined || out < 0 ? "" : data.values[out][1];
      return [item.op === "input" || item.op === "output" ? item.name : item.op.split("::").at(-1), type];
    }
    return [lastPart(item), `${item.kind ? `${item.kind} · ` : ""}${item.count}`];
  }

  function lastPart(group) {
    const parent = group.parent < 0 ? "" : graph.groups[group.parent].name;
    return group.name.startsWith(`${parent}.`) ? group.name.slice(parent.length + 1) : group.name;
  }

  function measure(item) {
    const [title, detail] = caption(item);
    const letters = shortened(title, 28).length + (item.isNode ? 0 : 2);
    return { w: Math.max(54, 18 + Math.max(letters * 7.2, shortened(detail, 34).length * 5.6)), h: 38 };
  }

  function draw() {
    const placed = GraphLayout.layout(graph, root, (group) => open.has(group.id), measure);
    const svg = element("svg", { viewBox: `0 0 ${placed.w} ${placed.h + 4}`, width: placed.w * scale, height: (placed.h + 4) * scale });
    const edges = element("g"), items = element("g"), frames = element("g");
    const names = element("g");
    svg.append(frames, edges, names, items);
    paint(placed, 0, 0, { frames, edges, names, items });
    host.querySelector(".canvas").replaceChildren(svg);
    host.size = placed;
  }

  function paint(placed, x, y, layers) {
    for (const box of placed.boxes) {
      const { item } = box, left = x + box.x, top = y + box.y;
      if (box.inner) {
        const frame = element("g", { class: "frame" }), name = element("g", { class: "frame" });
        frame.append(element("rect", { x: left, y: top, width: box.w, height: box.h, rx: 8 }));
        name.append(element("text", { x: left + 10, y: top + 17 }, `− ${lastPart(item)}`));
        if (item.kind) name.lastChild.append(element("tspan", { class: "kind", dx: 6 }, item.kind));
        attach(frame, item);
        attach(name, item);
        layers.frames.append(frame);
        layers.names.append(name);
        paint(box.inner, left, top, layers);
      } else {
        layers.items.append(shape(item, box, left, top));
      }
    }
    for (const link of placed.links) for (const values of lines(link)) layers.edges.append(line(link, values, x, y));
  }

  // One line between closed boxes; at an open one each value has a port of its own.
  function lines(link) {
    return link.a.inner || link.b.inner ? link.values.map((value) => [value]) : [link.values];
  }

  function shape(item, box, left, top) {
    const kind = item.isNode ? kindOf(item.op) : "group";
    const made = element("g", { class: `item ${kind}${matches(item) ? " found" : ""}` });
    const [title, detail] = caption(item), middle = left + box.w / 2;
    made.append(
      element("rect", { x: left, y: top, width: box.w, height: box.h, rx: kind === "end" ? 19 : 6 }),
      element("text", { x: middle, y: top + 16, class: "title" }, `${item.isNode ? "" : "+ "}${shortened(title, 28)}`),
      element("text", { x: middle, y: top + 30, class: "detail" }, shortened(detail, 34)),
    );
    attach(made, item);
    return made;
  }

  function line(link, values, x, y) {
    const at = (box, side) => {
      const port = box.inner?.ends.get(`${side}${values[0]}`);
      return x + box.x + (port ? port.x + port.w / 2 : box.w / 2);
    };
    const title = values.map((value) => data.values[value].slice(0, 2).join(" ")).join("\n");
    const made = element("g", { class: "edge" });
    let path;
    if (link.stub) {
      // Too far to be followed: it leaves here and comes in there.
      const a = link.a, b = link.b, from = a.y + y + a.h, to = b.y + y;
      path = `M${at(a, "out") + 8},${from} v8 M${at(b, "in") - 8},${to - 10} v10`;
      made.classList.add("stub");
    } else {
      // Straight down beside what is taller in the same layer, bent between layers only.
      const from = at(link.a, "out"), to = at(link.b, "in");
      const points = [[from, link.a.y + y + link.a.h], [from, link.a.bottom + y]];
      for (const dummy of link.through) points.push([at(dummy), dummy.top + y], [at(dummy), dummy.bottom + y]);
      points.push([to, link.b.top + y], [to, link.b.y + y]);
      path = `M${points[0]}`;
      for (let index = 1; index < points.length; index += 1) {
        const [fromX, fromY] = points[index - 1], [toX, toY] = points[index];
        path += fromX === toX ? ` L${toX},${toY}` : ` C${fromX},${(fromY + toY) / 2} ${toX},${(fromY + toY) / 2} ${toX},${toY}`;
      }
    }
    made.append(element("path", { d: path, class: "hit" }), element("path", { d: path, class: "line" }), element("title", {}, title));
    return made;
  }

  function attach(made, item) {
    made.addEventListener("mousemove", (event) => tell(item, event));
    made.addEventListener("mouseleave", () => { tip.hidden = true; });
    if (item.isNode) return;
    made.addEventListener("click", (event) => {
      event.stopPropagation();
      if (open.has(item.id)) open.delete(item.id); else { open.add(item.id); openOnlyChildren(item); }
      tip.hidden = true;
      draw();
    });
  }

  // A module that holds nothing but another is opened with it.
  function openOnlyChildren(group) {
    while (group.children.length === 1 && !group.children[0].isNode) { group = group.children[0]; open.add(group.id); }
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;

  function tell(item, event) {
    tip.replaceChildren(...(item.isNode ? aboutNode(item) : aboutGroup(item)));
    tip.hidden = false;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 18}px`;
  }

  function row(label, text, kind = "") {
    const made = document.createElement("div");
    const name = document.createElement("span");
    name.className = "label"; name.textContent = label;
    const value = document.createElement("span");
    value.className = kind; value.textContent = text;
    made.append(name, value);
    return made;
  }

  function aboutNode(node) {
    const rows = [row(node.op, node.name, "name")];
    const path = [];
    for (let at = node.group; at > 0; at = graph.groups[at].parent) path.push(graph.groups[at]);
    if (path.length) rows.push(row("module", `${path[0].name} ${path[0].kind}`));
    for (const value of node.in) {
      if (value < 0) continue;
      const [name, type, kind, bytes] = data.values[value];
      rows.push(row(kind || "takes", `${name} ${type}${kind === "weight" ? ` · ${bytesText(bytes)}` : ""}`));
    }
    for (const value of node.out) rows.push(row("gives", data.values[value].slice(0, 2).join(" ")));
    if (node.attrs) rows.push(row("with", node.attrs));
    if (node.line >= 0) rows.push(row("from", graph.lines[node.line], "code"));
    return rows;
  }

  function aboutGroup(group) {
    let bytes = 0;
    for (const value of group.values) if (data.values[value][2] === "weight") bytes += data.values[value][3];
    const rows = [row(group.kind || "part", group.name, "name"), row("holds", `${group.count} nodes${bytes ? ` · ${bytesText(bytes)} of weights` : ""}`)];
    rows.push(row("", open.has(group.id) ? "click to close" : "click to open"));
    return rows;
  }

  function bytesText(bytes) {
    const units = ["B", "kB", "MB", "GB"];
    let unit = 0;
    while (bytes >= 1000 && unit < 3) { bytes /= 1000; unit += 1; }
    return `${Number(bytes.toPrecision(3))} ${units[unit]}`;
  }

  function matches(item) {
    if (!found) return false;
    if (!item.isNode) return item.name.toLowerCase().includes(found) || item.children.some(matches);
    const texts = [item.op, item.name, item.line >= 0 ? graph.lines[item.line] : "", ...[...item.in, ...item.out].filter((v) => v >= 0).map((v) => data.values[v][0] ?? "")];
    return texts.some((text) => text.toLowerCase().includes(found));
  }

  function button(text, title, action) {
    const made = document.createElement("button");
    made.type = "button"; made.textContent = text; made.title = title;
    made.addEventListener("click", () => { action(); draw(); });
    return made;
  }

  function fit() { scale = Math.min(1, (host.clientWidth - 24) / (host.size?.w ?? 1)); }

  function build() {
    const bar = document.createElement("div"), canvas = document.createElement("div"), search = document.createElement("input");
    bar.className = "bar-of-buttons"; canvas.className = "canvas";
    search.placeholder = "find an operator, name or line"; search.type = "search";
    search.addEventListener("input", () => { found = search.value.trim().toLowerCase(); draw(); });
    bar.append(
      button("open all", "Open all modules", () => graph.groups.forEach((group) => open.add(group.id))),
      button("close all", "Close all modules", () => { open.clear(); open.add(0); }),
      button("+", "Larger", () => { scale *= 1.25; }),
      button("−", "Smaller", () => { scale /= 1.25; }),
      button("fit", "As wide as the page", fit),
      search,
    );
    host.append(bar, canvas);
    document.body.append(tip);
  }

  // Open modules from the outside in as long as the picture stays small.
  function openSome() {
    const pending = [root];
    let shown = root.children.length;
    while (pending.length) {
      for (const child of pending.shift().children) {
        if (child.isNode || shown + child.children.length > ENOUGH) continue;
        open.add(child.id);
        shown += child.children.length;
        pending.push(child);
      }
    }
  }

  build();
  openSome();
  draw();
  fit();
  draw();
})();
