// Attention as lines between two columns of tokens: who looks, on the left, and at what, on the right.
"use strict";
(function (whence) {
  const { el } = whence;
  const SVG = "http://www.w3.org/2000/svg";
  const LINE = 22; // pixels of a token
  const GAP = 150; // pixels between the columns
  const FAINT = 0.02; // weights below it are not drawn

  function shape(name, attributes) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  /** `pick(i, isRow)` when a token of the left (or right) column is chosen. */
  function arcs(pick) {
    const left = el("ol", { class: "w-ends w-from", role: "listbox", "aria-label": "Tokens that look: choose one" });
    const right = el("ol", { class: "w-ends w-to", role: "listbox", "aria-label": "Tokens that are looked at: choose one" });
    const lines = shape("svg", { class: "w-lines", "aria-hidden": "true" });
    const root = el(
      "div",
      { class: "w-arcbox", tabindex: -1 },
      el("p", { class: "w-quiet", text: "looks (query)" }),
      el("p"),
      el("p", { class: "w-quiet", text: "at (key)" }),
      left,
      lines,
      right,
    );
    let shown = null;

    function column(list, names, isRow) {
      const items = names.map((name, i) =>
        el("li", { role: "option", "aria-selected": "false", tabindex: -1, data: { i } }, el("bdi", { text: name.trim() || "␣" })),
      );
      list.replaceChildren(...items);
      list.onclick = (event) => {
        const item = event.target.closest("li");
        if (item) pick(Number(item.dataset.i), isRow);
      };
      list.onkeydown = (event) => {
        const at = items.indexOf(document.activeElement);
        const step = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
        const over = { ArrowRight: isRow, ArrowLeft: !isRow }[event.key];
        if (step !== undefined) choose(Math.max(0, Math.min(items.length - 1, step)), isRow);
        else if (over) choose(Math.min(at, (isRow ? right : left).children.length - 1), !isRow);
        else return;
        event.preventDefault();
      };
      return items;
    }

    function choose(i, isRow) {
      pick(i, isRow).then(() => (isRow ? left : right).children[i]?.focus());
    }

    return {
      root,
      /** Draw one head; `at` is the chosen token, of the left column where `isRow`. `strong(weight)`: 0 to 1. */
      draw(layer, head, at, isRow, strong) {
        const [from, to] = layer.axes;
        if (shown?.axes !== layer.axes) {
          shown = { axes: layer.axes, from: column(left, from, true), to: column(right, to, false) };
          const high = LINE * Math.max(from.length, to.length);
          lines.setAttribute("viewBox", `0 0 ${GAP} ${high}`);
          lines.setAttribute("height", high);
        }
        const { weight } = whence.headOf(layer, head);
        const middle = (i) => LINE * (i + 0.5);
        const made = [];
        for (let q = 0; q < from.length; q++) {
          for (let k = 0; k < to.length; k++) {
            const w = weight(q, k);
            if (w < FAINT) continue;
            const own = (isRow ? q : k) === at;
            const [a, b] = [middle(q), middle(k)];
            const path = shape("path", {
              d: `M0 ${a}C${GAP / 2} ${a} ${GAP / 2} ${b} ${GAP} ${b}`,
              class: own ? "w-own" : "w-other",
              "stroke-width": (1 + 4 * w).toFixed(2),
              "stroke-opacity": (own ? Math.max(0.15, strong(w)) : 0.12 * strong(w)).toFixed(3),
            });
            own ? made.push(path) : made.unshift(path);
          }
        }
        lines.replaceChildren(...made);
        const mark = (items, mine, of) =>
          items.forEach((item, i) => {
            const here = mine && i === at;
            item.setAttribute("aria-selected", String(here));
            item.tabIndex = here || (!mine && i === 0) ? 0 : -1;
            item.className = here ? "w-here" : mine ? "" : whence.shade(of(i), 1);
            if (!mine) item.title = of(i).toFixed(3);
          });
        mark(shown.from, isRow, (i) => strong(weight(i, at)));
        mark(shown.to, !isRow, (i) => strong(weight(at, i)));
      },
    };
  }

  Object.assign(whence, { arcs });
})((globalThis.whence ??= {}));
