// Attention maps as pictures: bytes (head, query, key) of one layer, 255 being a head's largest weight.
"use strict";
(function (whence) {
  const { el, fact } = whence;
  const [RED, GREEN, BLUE] = whence.FOR;
  const NAMED = 28; // tokens whose names stand beside the map

  /** The bytes of a base64 text. */
  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found;
  }

  /** How strong a weight from 0 to 1 is drawn, also from 0 to 1: as it is, or by its root, which lifts the weak ones. */
  const strengths = (lift) => (lift ? (weight) => Math.sqrt(Math.max(0, Math.min(1, weight))) : (weight) => weight);

  /** The scale that all maps share, as a bar with its numbers. */
  function scaleBar(strength) {
    const ticks = [0, 0.1, 0.25, 0.5, 1];
    const at = (tick) => el("span", { style: { left: `${100 * strength(tick)}%` }, text: String(tick) });
    return el(
      "div",
      { class: "w-scalebar", role: "img", "aria-label": "Weights from 0 to 1: the stronger the colour, the larger the weight" },
      el("span", { class: "w-quiet", text: "weight" }),
      el("div", {}, el("div", { class: "w-scaleramp" }), el("div", { class: "w-ticks" }, ticks.map(at))),
    );
  }

  /** The map of one head of a layer {maps, maxima, queries, keys}, and a function that reads its weights. */
  function headOf({ maps, maxima, queries, keys }, head) {
    const map = maps.subarray(head * queries * keys, (head + 1) * queries * keys);
    const unit = (maxima[head] ?? 1) / 255;
    return { map, weight: (query, key) => map[query * keys + key] * unit };
  }

  /** Draw a head in (rows, columns) pixels, each the largest of the cells it covers: a mean would lose single peaks. */
  function drawHead(canvas, layer, head, rows, columns, strength) {
    const { map } = headOf(layer, head);
    const { queries, keys } = layer;
    const largest = layer.maxima[head] ?? 1; // the same weight has the same colour in every head
    const opacity = Uint8Array.from({ length: 256 }, (_, v) => Math.round(255 * strength((v / 255) * largest)));
    Object.assign(canvas, { width: columns, height: rows });
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    const most = new Uint8Array(rows * columns);
    const across = Uint32Array.from({ length: keys }, (_, k) => Math.floor((k * columns) / keys));
    for (let q = 0; q < queries; q++) {
      const line = Math.floor((q * rows) / queries) * columns;
      for (let k = 0; k < keys; k++) {
        const value = map[q * keys + k];
        if (value > most[line + across[k]]) most[line + across[k]] = value;
      }
    }
    const words = new Uint32Array(pixels.data.buffer);
    const ink = (BLUE << 16) | (GREEN << 8) | RED; // opacity carries the weight, so that any background will do
    for (let i = 0; i < most.length; i++) words[i] = ((opacity[most[i]] << 24) | ink) >>> 0;
    context.putImageData(pixels, 0, 0);
  }

  /** The large map: names what is under the pointer or the keys, and calls `pick(query, key)` for a click or Enter. */
  function largeMap(pick) {
    const canvas = el("canvas", {
      class: "w-map",
      tabindex: 0,
      role: "img",
      "aria-label": "Attention map: queries go down, keys to the right. Arrow keys move, Enter chooses.",
    });
    const mark = el("div", { class: "w-mark", "aria-hidden": "true" });
    const [down, across] = [el("div", { class: "w-down", "aria-hidden": "true" }), el("div", { class: "w-across", "aria-hidden": "true" })];
    const stage = el("div", { class: "w-stage" }, canvas, mark);
    const name = (text) => el("span", { text: text.trim() || "␣" });
    let layer = null;
    let head = 0;
    let cell = [0, 0];

    function box() {
      const own = canvas.getBoundingClientRect();
      const [w, h] = [own.width / layer.keys, own.height / layer.queries];
      return new DOMRect(own.left + cell[1] * w, own.top + cell[0] * h, w, h);
    }

    function point(query, key, aloud) {
      if (!layer) return;
      cell = [Math.max(0, Math.min(layer.queries - 1, query)), Math.max(0, Math.min(layer.keys - 1, key))];
      const [from, to] = [layer.axes[0][cell[0]], layer.axes[1][cell[1]]];
      const weight = headOf(layer, head).weight(...cell);
      const name = el("p", { class: "w-tipname" }, el("bdi", { text: from }), " → ", el("bdi", { text: to }));
      const facts = [fact("weight", weight.toFixed(4)), fact("query, key", cell.join(", "))];
      whence.showTip([name, el("dl", { class: "w-facts" }, facts)], { getBoundingClientRect: box });
      if (aloud) whence.say(`${from} to ${to}: ${weight.toFixed(3)}`);
    }

    function under(event) {
      const own = canvas.getBoundingClientRect();
      const down = ((event.clientY - own.top) / own.height) * canvas.height;
      return [Math.floor(down), Math.floor(((event.clientX - own.left) / own.width) * canvas.width)];
    }

    canvas.addEventListener("pointermove", (event) => point(...under(event), false));
    canvas.addEventListener("pointerleave", () => whence.showTip(null));
    canvas.addEventListener("blur", () => whence.showTip(null));
    canvas.addEventListener("click", (event) => {
      point(...under(event), false);
      pick(...cell);
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (step) point(cell[0] + step[0], cell[1] + step[1], true);
      else if (event.key === "Enter" || event.key === " ") pick(...cell);
      else return;
      event.preventDefault();
    });

    return {
      root: el(
        "div",
        { class: "w-labelled" },
        el("span", { class: "w-quiet w-keys", text: "at (key) →" }),
        across,
        el("span", { class: "w-quiet w-queries", text: "looks (query) ↓" }),
        down,
        stage,
      ),
      draw(next, number, strength) {
        [layer, head] = [next, number];
        drawHead(canvas, layer, head, layer.queries, layer.keys, strength);
        canvas.style.setProperty("aspect-ratio", `${layer.keys} / ${layer.queries}`);
        const few = Math.max(layer.keys, layer.queries) <= NAMED;
        down.replaceChildren(...(few ? layer.axes[0].map(name) : []));
        across.replaceChildren(...(few ? layer.axes[1].map(name) : []));
      },
      /** Frame a row, or a column. */
      frame(at, isRow) {
        const of = isRow ? layer.queries : layer.keys;
        const [start, size] = [`${(100 * at) / of}%`, `max(1px, ${100 / of}%)`];
        const box = isRow ? [start, size, 0, "100%"] : [0, "100%", start, size];
        ["top", "height", "left", "width"].forEach((side, n) => mark.style.setProperty(side, box[n]));
      },
    };
  }

  Object.assign(whence, { bytes, drawHead, headOf, largeMap, scaleBar, strengths });
})((globalThis.whence ??= {}));
