// A pair: arcs between what goes together, and the matrix; what is pointed at, a token, a patch or a cell, lights up.
"use strict";
(function (whence) {
  const { el, fact, scaleOf, shade, showTip, signed } = whence;
  /** Bring the elements of pair_page.py in `root` to life. */
  whence.pair = function (root, data) {
  const two = root.querySelector('[data-role="two"]');
  const { matrix, left, right } = data;
  const scale = scaleOf(matrix.flat());
  const SVG = "http://www.w3.org/2000/svg";
  const CELLS = 6400; // more are drawn as a picture, without names
  const parts = { left: marks("left"), right: marks("right") };
  let kept = null; // what was clicked
  let shown = null; // what is seen now

  function marks(side) {
    const found = [];
    for (const node of root.querySelectorAll(`[data-${side}]`)) found[Number(node.dataset[side])] = node;
    return found;
  }

  function shape(name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  // -- arcs

  const arcs = shape("svg", { class: "w-arcs", "aria-hidden": "true" });
  two.append(arcs);
  const all = matrix
    .flatMap((row, i) => row.map((score, j) => ({ i, j, score: score ?? 0 })))
    .sort((a, b) => Math.abs(b.score) - Math.abs(a.score));

  /** The pairs that have an arc: the strongest of all, or of what is pointed at. */
  function chosen({ i = null, j = null } = {}) {
    const fits = (pair) => (i === null || pair.i === i) && (j === null || pair.j === j);
    return all.filter(fits).slice(0, data.arcs).filter((pair) => Math.abs(pair.score) > scale / 50);
  }

  // -- keys: one part of each side can be tabbed to, and arrows go on from there

  const place = { left: 0, right: 0 };

  function move(side, to) {
    const next = Math.max(0, Math.min(parts[side].length - 1, to));
    parts[side][place[side]]?.setAttribute("tabindex", "-1");
    place[side] = next;
    parts[side][next]?.setAttribute("tabindex", "0");
    parts[side][next]?.focus();
  }

  function step(side, key) {
    const node = parts[side][place[side]];
    const forward = getComputedStyle(node).direction === "rtl" ? -1 : 1;
    const down = data[side].columns ?? forward;
    return { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: down, ArrowUp: -down }[key];
  }

  function drawArcs(what) {
    const home = two.getBoundingClientRect();
    const made = chosen(what ?? {}).map(({ i, j, score }) => {
      const from = parts.left[i]?.getBoundingClientRect();
      const to = parts.right[j]?.getBoundingClientRect();
      if (!from || !to) return null;
      const picture = (side, n) => parts[side][n].tagName === "rect";
      const x1 = (from.left + from.right) / 2 - home.left;
      const y1 = (picture("left", i) ? (from.top + from.bottom) / 2 : from.bottom) - home.top;
      const x2 = (to.left + to.right) / 2 - home.left;
      const y2 = (picture("right", j) ? (to.top + to.bottom) / 2 : to.top) - home.top;
      const bend = Math.max(24, (y2 - y1) / 2);
      const strength = Math.abs(score) / scale;
      return shape("path", {
        class: `w-arc${score < 0 ? " w-less" : ""}`,
        d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`,
        "stroke-width": 1 + 5 * strength,
        "stroke-opacity": 0.2 + 0.7 * strength,
      });
    });
    arcs.replaceChildren(...made.filter(Boolean).reverse());
  }

  // -- matrix

  const here = shape("rect", { class: "w-here", visibility: "hidden" });
  let cellAt = () => null; // the cell under the pointer
  let mark = () => {};

  function smallMatrix() {
    const rows = left.names.length;
    const columns = right.names.length;
    const size = Math.max(12, Math.min(28, 900 / Math.max(rows, columns)));
    const brief = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);
    const room = (names) => 10 + 6.4 * Math.max(...names.map((name) => brief(name).length));
    const [x, y] = [room(left.names), room(right.names)];
    const svg = shape("svg", {
      class: "w-grid",
      width: x + size * columns + 2,
      height: y + size * rows + 2,
      viewBox: `0 0 ${x + size * columns + 2} ${y + size * rows + 2}`,
      role: "img",
      "aria-label": "Matrix: parts of the first go down, parts of the second to the right.",
    });
    left.names.forEach((name, n) =>
      svg.append(shape("text", { x: x - 6, y: y + size * (n + 0.5) + 4, "text-anchor": "end" }, brief(name))),
    );
    right.names.forEach((name, n) => {
      const [at, base] = [x + size * (n + 0.5) + 4, y - 6];
      svg.append(shape("text", { x: at, y: base, transform: `rotate(-90 ${at} ${base})` }, brief(name)));
    });
    matrix.forEach((row, i) =>
      row.forEach((score, j) => {
        const strength = Math.min(1, Math.abs(score ?? 0) / scale);
        if (strength < 0.004) return;
        svg.append(
          shape("rect", {
            class: `w-cell${score < 0 ? " w-less" : ""}`,
            x: x + size * j, y: y + size * i, width: size, height: size, "fill-opacity": strength.toFixed(3),
          }), // prettier-ignore
        );
      }),
    );
    svg.append(shape("rect", { class: "w-frame", x, y, width: size * columns, height: size * rows }), here);
    cellAt = (event) => {
      const box = svg.getBoundingClientRect();
      const unit = box.width / (x + size * columns + 2);
      const i = Math.floor(((event.clientY - box.top) / unit - y) / size);
      const j = Math.floor(((event.clientX - box.left) / unit - x) / size);
      return i >= 0 && i < rows && j >= 0 && j < columns ? { i, j } : null;
    };
    mark = ({ i = null, j = null } = {}) => {
      here.setAttribute("visibility", i === null && j === null ? "hidden" : "visible");
      here.setAttribute("x", x + size * (j ?? 0));
      here.setAttribute("y", y + size * (i ?? 0));
      here.setAttribute("width", j === null ? size * columns : size);
      here.setAttribute("height", i === null ? size * rows : size);
    };
    return svg;
  }

  function largeMatrix() {
    const rows = left.names.length;
    const columns = right.names.length;
    const canvas = el("canvas", { class: "w-big", width: columns, height: rows, role: "img", "aria-label": "Matrix" });
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    matrix.forEach((row, i) =>
      row.forEach((score, j) => {
        const colour = score < 0 ? whence.AGAINST : whence.FOR;
        pixels.data.set([...colour, Math.round(255 * Math.min(1, Math.abs(score ?? 0) / scale))], 4 * (i * columns + j));
      }),
    );
    context.putImageData(pixels, 0, 0);
    cellAt = (event) => {
      const box = canvas.getBoundingClientRect();
      const i = Math.floor(((event.clientY - box.top) / box.height) * rows);
      const j = Math.floor(((event.clientX - box.left) / box.width) * columns);
      return i >= 0 && i < rows && j >= 0 && j < columns ? { i, j } : null;
    };
    return canvas;
  }

  const map = left.names.length * right.names.length <= CELLS ? smallMatrix() : largeMatrix();
  const box = el("div", { class: "w-matrix", tabindex: 0, role: "region", "aria-label": "What goes with what" }, map);
  root.querySelector('[data-role="matrix"]').append(box);

  // -- pointing

  /** What a side shows: what it has in all, or together with the part of the other that is pointed at. */
  function colour(side, scores, full, lit) {
    parts[side].forEach((node, n) => {
      const score = scores[n];
      if (node.tagName === "rect") {
        node.setAttribute("class", `w-square w-${score < 0 ? "against" : "for"}`);
        node.setAttribute("fill-opacity", 0.75 * Math.min(1, Math.abs(score ?? 0) / full));
      } else {
        node.className = `w-t ${shade(score, full)}${node.classList.contains("w-s") ? " w-s" : ""}`;
      }
      node.classList.toggle("w-lit", lit === n);
      node.setAttribute("aria-selected", String(kept !== null && (side === "left" ? kept.i : kept.j) === n));
    });
  }

  /** {i}, {j}, {i, j}, or nothing for the whole. */
  function show(what) {
    shown = what;
    const { i = null, j = null } = what ?? {};
    const row = i === null || j !== null ? null : matrix[i];
    const column = j === null || i !== null ? null : matrix.map((line) => line[j]);
    colour("left", column ?? left.scores, column ? scaleOf(column) : scaleOf(left.scores), i);
    colour("right", row ?? right.scores, row ? scaleOf(row) : scaleOf(right.scores), j);
    drawArcs(what);
    mark(what ?? {});
  }

  const found = (target) => {
    const node = target.closest?.("[data-left], [data-right]");
    if (!node || !two.contains(node)) return null;
    return node.dataset.left === undefined ? { j: Number(node.dataset.right) } : { i: Number(node.dataset.left) };
  };

  /** Names and numbers of what is pointed at. */
  function told({ i = null, j = null }) {
    if (i !== null && j !== null) {
      const match = data.matches.find(([a, b]) => a === i && b === j);
      return [
        fact(`${left.names[i]} × ${right.names[j]}`, signed(matrix[i][j])),
        ...(match ? [fact("partners as embedded", signed(match[2]))] : []),
      ];
    }
    const [own, other, n] = i !== null ? [left, right, i] : [right, left, j];
    const line = i !== null ? matrix[i] : matrix.map((row) => row[j]);
    const best = line.map((score, k) => [score ?? 0, k]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 3);
    return [fact(`${own.names[n]}, in all`, signed(own.scores[n])), ...best.map(([s, k]) => fact(`× ${other.names[k]}`, signed(s)))];
  }

  const same = (a, b) => (a?.i ?? null) === (b?.i ?? null) && (a?.j ?? null) === (b?.j ?? null);

  function point(what, node) {
    show(what ?? kept);
    showTip(what ? [el("dl", { class: "w-facts" }, told(what))] : null, node);
  }

  function keep(what) {
    kept = what && same(kept, what) ? null : what;
    show(kept);
  }

  two.addEventListener("pointerover", (event) => point(found(event.target), event.target));
  two.addEventListener("pointerleave", () => point(null));
  two.addEventListener("focusin", (event) => point(found(event.target), event.target));
  two.addEventListener("focusout", () => point(null));
  two.addEventListener("click", (event) => {
    const what = found(event.target);
    if (what) move(what.i === undefined ? "right" : "left", what.i ?? what.j);
    keep(what);
  });
  two.addEventListener("keydown", (event) => {
    const what = found(event.target);
    if (event.key === "Escape") return keep(null);
    if (!what) return null;
    const side = what.i === undefined ? "right" : "left";
    const by = step(side, event.key);
    if (by) move(side, place[side] + by);
    else if (event.key === "Home" || event.key === "End") move(side, event.key === "Home" ? 0 : parts[side].length - 1);
    else if (event.key === "Enter" || event.key === " ") keep(what);
    else return null;
    return event.preventDefault();
  });
  map.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    const spot = { getBoundingClientRect: () => new DOMRect(event.clientX - 8, event.clientY - 8, 16, 16) };
    point(cell, spot);
  });
  map.addEventListener("pointerleave", () => point(null));
  map.addEventListener("click", (event) => keep(cellAt(event)));
  addEventListener("resize", () => drawArcs(shown));
  addEventListener("load", () => drawArcs(shown));
  show(null);
  root.classList.add("w-complete");
  }; // prettier-ignore

  const page = document.getElementById("whence-pair"); // a page of its own
  if (!page) return;
  document.getElementById("whence-actions").append(
    el("button", { type: "button", class: "w-button", text: "Print", on: { click: () => print() } }),
    whence.themeButton(),
  );
  whence.pair(page, JSON.parse(document.getElementById("whence-data").textContent));
})((globalThis.whence ??= {}));
