// Lays a graph of nested groups out: each open group by itself, in layers, with a port in its border for each value
// that comes in or goes out. No edge is drawn over a node: one that passes layers gets a place in each.
"use strict";
const GraphLayout = (() => {
  const GAP_X = 22, GAP_Y = 30, PAD = 16, HEAD = 26, LONGEST = 14;

  function prepare(data) {
    const groups = data.groups.map((group, id) => ({ ...group, id, children: [], values: new Set(), count: 0 }));
    const nodes = data.nodes.map((node, id) => ({ ...node, id, isNode: true }));
    for (const group of groups) if (group.parent >= 0) groups[group.parent].children.push(group);
    for (const node of nodes) groups[node.group].children.push(node);
    const makers = data.values.map(() => []), users = data.values.map(() => []);
    for (const node of nodes) {
      for (const value of node.out) makers[value].push(node);
      for (const value of node.in) if (value >= 0 && !data.values[value][2]) users[value].push(node);
    }
    const graph = { groups, nodes, makers, users, values: data.values, lines: data.lines };
    for (const node of nodes) {
      for (let at = node.group; at >= 0; at = groups[at].parent) {
        groups[at].count += 1;
        for (const value of [...node.in, ...node.out]) if (value >= 0) groups[at].values.add(value);
      }
    }
    const first = (item) => item.first ??= item.isNode ? item.id : Math.min(...item.children.map(first), 1e9);
    for (const group of groups) group.children.sort((one, other) => first(one) - first(other));
    return graph;
  }

  // The child of a group in which a node lies; null if it lies outside.
  function within(graph, group, node) {
    let item = node, parent = node.group;
    while (parent !== group.id) {
      if (parent < 0) return null;
      item = graph.groups[parent];
      parent = item.parent;
    }
    return item;
  }

  function connections(graph, group) {
    const edges = new Map(), ports = new Map();
    const port = (value, side) => {
      const key = `${side}${value}`;
      if (!ports.has(key)) ports.set(key, { port: side, value, w: 6, h: 1, key });
      return ports.get(key);
    };
    const join = (from, to, value) => {
      const key = `${keyOf(from)}>${keyOf(to)}`;
      if (!edges.has(key)) edges.set(key, { from, to, values: [] });
      edges.get(key).values.push(value);
    };
    for (const value of group.values) {
      const from = new Set(graph.makers[value].map((node) => within(graph, group, node)));
      const to = new Set(graph.users[value].map((node) => within(graph, group, node)));
      const inside = [...to].filter(Boolean), made = [...from].filter(Boolean);
      if (made.length === 0 && from.size > 0) for (const item of inside) join(port(value, "in"), item, value);
      for (const source of made) {
        for (const item of inside) if (item !== source) join(source, item, value);
        if (to.has(null)) join(source, port(value, "out"), value);
      }
    }
    return { edges: [...edges.values()], ports: [...ports.values()] };
  }

  const keyOf = (item) => item.port ? item.key : item.isNode ? `n${item.id}` : `g${item.id}`;

  function layout(graph, group, isOpen, measure) {
    const boxes = group.children.map((item) => {
      const inner = !item.isNode && isOpen(item) ? layout(graph, item, isOpen, measure) : null;
      const size = inner ? { w: inner.w, h: inner.h } : measure(item);
      return { item, inner, ...size };
    });
    const { edges, ports } = connections(graph, group);
    const all = new Map(boxes.map((box) => [keyOf(box.item), box]));
    for (const item of ports) all.set(item.key, { item, inner: null, w: item.w, h: item.h });
    const links = edges.map((edge) => ({ ...edge, a: all.get(keyOf(edge.from)), b: all.get(keyOf(edge.to)) }));
    const layers = inLayers([...all.values()], links);
    const routed = route(layers, links);
    order(layers);
    place(layers);
    const ends = new Map(ports.map((item) => [item.key, all.get(item.key)]));
    return { ...finish(group, layers, boxes), boxes, links: routed, ends };
  }

  function inLayers(boxes, links) {
    boxes.forEach((box, number) => { box.rank = box.item.port === "in" ? -1 : box.item.port === "out" ? 1e9 : number; });
    for (const box of boxes) { box.layer = 0; box.up = []; box.down = []; }
    for (const link of links) {
      link.back = link.a.rank >= link.b.rank;  // A module that is called twice can be before and after another.
      if (!link.back) { link.a.down.push(link.b); link.b.up.push(link.a); }
    }
    const ranked = [...boxes].sort((one, other) => one.rank - other.rank);
    for (const box of ranked) for (const next of box.down) next.layer = Math.max(next.layer, box.layer + 1);
    const last = Math.max(0, ...boxes.map((box) => box.layer));
    for (const box of boxes) if (box.item.port === "out" || box.item.op === "output") box.layer = last;
    // What takes nothing stands right above what it is for.
    for (const box of ranked.reverse()) {
      if (box.up.length === 0 && box.down.length && box.item.op !== "input" && !box.item.port) {
        box.layer = Math.min(...box.down.map((next) => next.layer)) - 1;
      }
    }
    const layers = Array.from({ length: last + 1 }, () => []);
    for (const box of boxes) {
      layers[box.layer].push(box);
      box.up = []; box.down = [];
    }
    return layers;
  }

  function route(layers, links) {
    for (const link of links) {
      const { a, b } = link;
      if (link.back || b.layer - a.layer > LONGEST) { link.stub = true; continue; }
      link.through = [];
      let before = a;
      for (let layer = a.layer + 1; layer < b.layer; layer += 1) {
        const dummy = { dummy: true, w: 4, h: 0, layer, up: [before], down: [] };
        before.down.push(dummy);
        layers[layer].push(dummy);
        link.through.push(dummy);
        before = dummy;
      }
      before.down.push(b);
      b.up.push(before);
    }
    return links;
  }

  function order(layers) {
    const number = (layer) => layer.forEach((box, index) => { box.index = index; });
    layers.forEach(number);
    for (let sweep = 0; sweep < 6; sweep += 1) {
      const downwards = sweep % 2 === 0, side = downwards ? "up" : "down";
      for (const layer of downwards ? layers : [...layers].reverse()) {
        for (const box of layer) {
          const near = box[side];
          box.want = near.length ? near.reduce((sum, one) => sum + one.index, 0) / near.length : box.index;
        }
        layer.sort((one, other) => one.want - other.want || one.index - other.index);
        number(layer);
      }
    }
  }

  // Each layer as near as can be to where its neighbours are, in its order: isotonic regression.
  function place(layers) {
    for (const layer of layers) {
      let x = 0;
      for (const box of layer) { box.x = x; x += box.w + GAP_X; }
      for (const box of layer) box.x -= x / 2;
    }
    for (let sweep = 0; sweep < 12; sweep += 1) {
      const sides = sweep % 2 === 0 ? ["up"] : ["down"];
      if (sweep > 7) sides.splice(0, 1, "up", "down");
      for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) settle(layer, sides);
    }
  }

  function settle(layer, sides) {
    let offset = 0;
    const blocks = [];
    for (const box of layer) {
      const near = sides.flatMap((side) => box[side]);
      const centre = near.length ? near.reduce((sum, one) => sum + one.x + one.w / 2, 0) / near.length : box.x + box.w / 2;
      const weight = (near.length ? 1 : 0.1) * (box.dummy ? 3 : 1);
      let block = { sum: (centre - box.w / 2 - offset) * weight, weight, boxes: [[box, offset]] };
      while (blocks.length && blocks.at(-1).sum / blocks.at(-1).weight > block.sum / block.weight) {
        const other = blocks.pop();
        block = { sum: other.sum + block.sum, weight: other.weight + block.weight, boxes: [...other.boxes, ...block.boxes] };
      }
      blocks.push(block);
      offset += box.w + GAP_X;
    }
    for (const block of blocks) for (const [box, at] of block.boxes) box.x = block.sum / block.weight + at;
  }

  function finish(group, layers, boxes) {
    let y = HEAD, low = HEAD, left = Infinity, right = -Infinity;
    layers.forEach((layer, number) => {
      const height = Math.max(0, ...layer.map((box) => box.h));
      for (const box of layer) {
        box.y = box.item?.port === "in" && number === 0 ? 0 : y + (height - box.h) / 2;
        left = Math.min(left, box.x);
        right = Math.max(right, box.x + box.w);
        box.top = y;
        box.bottom = y + height;
      }
      if (height > 1) low = y + height;
      y += height + (height > 1 || number > 0 ? GAP_Y : 8);
    });
    if (left > right) { left = 0; right = 60; }
    const h = low + PAD + 4, w = Math.max(right - left + 2 * PAD, 40 + 7 * (group.name.length + group.kind.length));
    const shift = (w - (right - left)) / 2 - left;
    for (const layer of layers) for (const box of layer) {
      box.x += shift;
      if (box.item?.port === "out") box.y = box.top = box.bottom = h;
      if (box.item?.port === "in") box.top = box.bottom = box.y;
    }
    return { w, h };
  }

  return { prepare, layout };
})();
