// A flame graph, outermost call on top; a click on a call gives it the whole width.
"use strict";
(() => {
  const root = JSON.parse(document.getElementById("flame-data").textContent);
  const host = document.getElementById("flame"), ROW = 19;
  const bar = document.createElement("div"), canvas = document.createElement("div"), search = document.createElement("input");
  const told = document.createElement("span");
  bar.className = "bar-of-buttons"; canvas.className = "flames"; search.type = "search"; search.placeholder = "find a function or file";
  const whole = document.createElement("button");
  whole.type = "button"; whole.textContent = "whole export";
  whole.addEventListener("click", () => draw([root]));
  told.className = "quiet";
  bar.append(whole, search, told);
  host.append(bar, canvas);
  let shown = [root];
  search.addEventListener("input", () => draw(shown));

  function draw(path) {
    shown = path;
    const focus = path.at(-1), width = host.clientWidth, wanted = search.value.trim().toLowerCase();
    const made = [];
    let deepest = 0, hits = 0;
    const add = (call, way, left, size, depth) => {
      deepest = Math.max(deepest, depth);
      const [name, samples, kind] = call, cell = document.createElement("div");
      const hit = wanted && name.toLowerCase().includes(wanted);
      cell.className = `call ${kind}${hit ? " found" : ""}`;
      cell.style.cssText = `left:${left}px;width:${Math.max(size - 1, 1)}px;top:${depth * ROW}px`;
      cell.textContent = size > 30 ? name : "";
      cell.title = `${name}\n${(100 * samples / root[1]).toFixed(1)} % of the export`;
      cell.addEventListener("click", () => draw(way));
      made.push(cell);
      return hit;
    };
    path.slice(0, -1).forEach((call, depth) => add(call, path.slice(0, depth + 1), 0, width, depth));
    const walk = (call, way, left, size, depth, counted) => {
      const hit = add(call, way, left, size, depth);
      if (hit && !counted) hits += call[1];
      let at = left;
      for (const inner of call[3]) {
        const part = size * inner[1] / call[1];
        if (part >= 1) walk(inner, [...way, inner], at, part, depth + 1, counted || hit);
        at += part;
      }
    };
    walk(focus, path, 0, width, path.length - 1, false);
    canvas.style.height = `${(deepest + 1) * ROW + 4}px`;
    canvas.replaceChildren(...made);
    told.textContent = wanted ? `${(100 * hits / root[1]).toFixed(1)} % of the export` : "";
  }

  draw([root]);
  addEventListener("resize", () => draw(shown));
})();
