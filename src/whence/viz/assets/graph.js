// The page of an attribution graph: a node, pointed at or chosen, shows what came into it and what it gave.
"use strict";
(function (whence) {
  const { el, signed } = whence;
  const data = JSON.parse(document.getElementById("whence-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const WIDEST = 7;
  const [LEFT, TOP, BELOW] = [70, 16, 90];

  function svg(name, attributes, ...children) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const rows = data.relevance.length;
  const tokens = data.tokens.length;
  const root = document.getElementById("whence-graph");
  const room = root.clientWidth > 900 ? root.clientWidth - 400 : root.clientWidth - 40; // the list stands beside it, or below
  const step = Math.max(14, Math.min(60, 640 / rows));
  const wide = Math.max(16, Math.min(110, (room - LEFT) / tokens));
  const place = (row, token) => [LEFT + wide * (token + 0.5), TOP + step * (rows - 1 - row)];
  const full = Math.max(...data.edges.map((e) => Math.abs(e[4])), 1e-12);
  const largest = whence.scaleOf(data.relevance.flat());
  const colour = (weight) => (weight < 0 ? "rgb(33 102 172)" : "rgb(230 97 1)");
  const rowName = (row) => (row === 0 ? "input" : `layer ${row - 1}`);
  const nodeName = (row, token) => `${data.tokens[token]}, ${row === 0 ? "at the input" : `after layer ${row - 1}`}`;

  const picture = svg("svg", {
    width: LEFT + wide * tokens + 8,
    height: TOP + step * (rows - 1) + BELOW,
    role: "group",
    "aria-label": "Tokens from left to right, layers from bottom to top",
  });
  for (let row = 0; row < rows; row++) {
    const y = place(row, 0)[1];
    picture.append(svg("line", { class: "w-row", x1: LEFT, x2: LEFT + wide * tokens, y1: y, y2: y }));
    if (step >= 18 || row === 0 || row % 5 === 1) {
      const label = svg("text", { class: "w-faint", x: LEFT - 8, y: y + 3.5, "text-anchor": "end" });
      label.textContent = rowName(row);
      picture.append(label);
    }
  }

  const drawn = data.edges.map(([layer, source, target, by, weight]) => {
    const [x1, y1] = place(layer, source);
    const [x2, y2] = place(layer + 1, target);
    const bend = step * 0.45;
    const line = svg("path", { d: `M${x1} ${y1}C${x1} ${y1 - bend} ${x2} ${y2 + bend} ${x2} ${y2}` });
    line.setAttribute("stroke", colour(weight));
    line.setAttribute("stroke-width", 0.5 + (WIDEST - 0.5) * Math.sqrt(Math.abs(weight) / full));
    return { layer, source, target, by, weight, line };
  });
  for (const edge of [...drawn].reverse()) picture.append(edge.line);

  const nodes = new Map();
  const key = (row, token) => row * tokens + token;
  for (const { layer, source, target } of drawn)
    for (const [row, token] of [[layer, source], [layer + 1, target]]) nodes.set(key(row, token), { row, token }); // prettier-ignore
  const ordered = [...nodes.values()].sort((a, b) => b.row - a.row || a.token - b.token);
  for (const node of ordered) {
    const [x, y] = place(node.row, node.token);
    const score = data.relevance[node.row][node.token];
    const radius = 2.2 + Math.min(wide / 2 - 2, 6) * Math.sqrt(Math.abs(score) / largest);
    node.mark = svg("circle", { cx: x, cy: y, r: Math.max(2.2, radius), tabindex: -1, role: "button" });
    node.mark.setAttribute("fill", `color-mix(in srgb, ${colour(score)} ${Math.round((100 * Math.abs(score)) / largest)}%, white)`);
    node.mark.setAttribute("aria-label", `${nodeName(node.row, node.token)}: ${signed(score)}`);
    picture.append(node.mark);
  }
  data.tokens.forEach((name, token) => {
    const [x, y] = place(0, token);
    const label = svg("text", { x: 0, y: 0, "text-anchor": "end", transform: `translate(${x + 4} ${y + 14}) rotate(-55)` });
    label.textContent = name.length > 14 ? `${name.slice(0, 13)}…` : name;
    picture.append(label);
  });

  // -- asking ----------------------------------------------------------------------------------------------------

  const side = el("div", { class: "w-card w-side" });
  let chosen = null;

  const way = (edge) =>
    edge.source === edge.target ? data.tokens[edge.source] : `${data.tokens[edge.source]} → ${data.tokens[edge.target]}`;
  const listed = (title, edges) => [
    el("h3", { text: title }),
    edges.length
      ? el(
          "ol",
          {},
          edges
            .slice(0, 20)
            .map((edge) =>
              el("li", {}, el("span", { text: signed(edge.weight) }), el("span", {}, el("bdi", { text: way(edge) }), ` · layer ${edge.layer}, ${edge.by}`)),
            ),
        )
      : el("p", { class: "w-quiet", text: "none that is shown" }),
  ];

  function ask(node) {
    picture.classList.toggle("w-asked", Boolean(node));
    for (const edge of drawn) {
      edge.line.classList.toggle("w-in", Boolean(node) && edge.layer + 1 === node.row && edge.target === node.token);
      edge.line.classList.toggle("w-out", Boolean(node) && edge.layer === node.row && edge.source === node.token);
    }
    if (!node) {
      const between = drawn.filter((edge) => edge.source !== edge.target);
      side.replaceChildren(
        el("h2", { text: "Strongest edges between tokens" }),
        el("p", { class: "w-quiet", text: "Point at a node, or go to it with the arrow keys, to see what came into it and what it gave." }),
        ...listed("", between).slice(1),
        el("p", { class: "w-quiet", text: `Shown: ${whence.percent(data.kept, 0)} of what each layer carries, or more.` }),
      );
      return;
    }
    const into = drawn.filter((edge) => edge.layer + 1 === node.row && edge.target === node.token);
    const out = drawn.filter((edge) => edge.layer === node.row && edge.source === node.token);
    side.replaceChildren(
      el("h2", {}, el("bdi", { text: nodeName(node.row, node.token) })),
      el("p", { text: `relevance ${signed(data.relevance[node.row][node.token])}` }),
      ...listed("came in by", into),
      ...listed("went out by", out),
    );
  }

  function choose(node) {
    for (const one of ordered) one.mark.classList.toggle("w-chosen", one === node);
    chosen = node;
    ask(node);
  }

  function focus(node) {
    for (const one of ordered) one.mark.setAttribute("tabindex", one === node ? 0 : -1);
    node.mark.focus();
  }

  for (const node of ordered) {
    node.mark.addEventListener("pointerenter", () => ask(node));
    node.mark.addEventListener("pointerleave", () => ask(chosen));
    node.mark.addEventListener("focus", () => ask(node));
    node.mark.addEventListener("click", () => choose(chosen === node ? null : node));
    node.mark.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") choose(chosen === node ? null : node);
      if (event.key === "Escape") choose(null);
      const to = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
      if (!to) return;
      event.preventDefault();
      const [dr, dt] = to;
      const ahead = ordered.filter((o) => (dr ? Math.sign(o.row - node.row) === dr : o.row === node.row && Math.sign(o.token - node.token) === dt));
      const near = ahead.sort((a, b) => Math.abs(a.row - node.row) - Math.abs(b.row - node.row) || Math.abs(a.token - node.token) - Math.abs(b.token - node.token));
      if (near.length) focus(near[0]);
    });
  }
  if (ordered.length) ordered[0].mark.setAttribute("tabindex", 0);

  document
    .getElementById("whence-actions")
    .append(
      el("button", { type: "button", class: "w-button", text: "Print", on: { click: () => print() } }),
      whence.themeButton(),
    );
  root.replaceChildren(el("div", { class: "w-graph" }, el("section", { class: "w-card w-canvas" }, picture), side));
  root.append(el("section", { class: "w-card" }, el("h2", { text: "Stamp" }), whence.stamp({ ...data, target: "" })));
  ask(null);
})(globalThis.whence);
