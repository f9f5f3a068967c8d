// Attention, head by head: small maps of all heads, one large, and the tokens coloured by where one of them looks.
"use strict";
(function (whence) {
  const { el } = whence;
  const THUMB = 48;
  const FEW = 48; // tokens that are drawn as two columns at first
  const ARROWS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

  const LAYOUT = "Heads: layers go down, heads to the right";
  const SORTS = {
    relevance: (a, b) => Math.abs(b) - Math.abs(a),
    entropy: (a, b) => a - b,
  };

  const streamOf = ({ stream }) => (stream && stream !== "self" ? stream : "");

  /**
   * Draw into `root`. `source`: {layers: [{heads, stream}], load(layer), eager, failed(error), image, ranks}. `ranks` are
   * numbers of every head, {relevance, entropy: [layer][head]}, that heads can be sorted by. `load` promises
   * {maps, maxima, axes}: bytes (head, query, key), and tokens of queries and keys. Layers load one by one or when
   * clicked.
   */
  function heads(root, source) {
    const state = { layer: 0, head: 0, token: null, isRow: true, view: null };
    const loaded = new Map();
    let strength = whence.strengths(true);

    const grid = el("div", { class: "w-heads", role: "radiogroup", "aria-label": "Heads: a row per layer" });
    const heading = el("h2", { text: LAYOUT });
    const name = el("h3");
    const pick = (i, isRow = state.isRow) => {
      if (isRow !== state.isRow) {
        state.isRow = isRow;
        direction.querySelector(`input[value="${isRow ? "from" : "to"}"]`).checked = true;
      }
      state.token = i;
      return current().then(drawToken);
    };
    const arcs = whence.arcs(pick);
    const scale = el("div");
    const map = whence.largeMap((query, key) => pick(state.isRow ? query : key));
    const looks = whence.looks(pick, source.image);

    const ranks = source.ranks ?? {};
    const told = { relevance: whence.signed, entropy: (nats) => `${whence.plain(nats)} nats` };
    const said = (layer, head) =>
      Object.entries(ranks).map(([rank, held]) => `${rank} ${told[rank](held[layer][head])}`);
    const rows = [];
    let line = null; // heads in one order, where they are sorted
    const thumbs = source.layers.map((layer, number) => {
      const buttons = Array.from({ length: layer.heads }, (_, head) => {
        const label = `Layer ${number}, head ${head}`;
        const on = { click: () => choose(number, head).catch(failed) };
        const options = { type: "button", role: "radio", class: "w-thumb", "aria-label": label, on };
        const title = [label, ...said(number, head)].join(", ");
        return el("button", { ...options, title, tabindex: -1, "aria-checked": "false" }, el("canvas"));
      });
      const title = el("span", { class: "w-quiet", text: `${number} ${streamOf(layer)}` });
      rows.push(el("div", { class: "w-layer" }, title, el("div", { class: "w-thumbs" }, buttons)));
      return buttons;
    });
    grid.append(...rows);

    function sort(by) {
      const held = ranks[by];
      line = held && held.flatMap((values, layer) => values.map((value, head) => ({ layer, head, value })));
      line?.sort((a, b) => SORTS[by](a.value, b.value));
      if (line) {
        const sorted = line.map(({ layer, head }) => thumbs[layer][head]);
        grid.replaceChildren(el("div", { class: "w-thumbs w-wrap" }, sorted));
      } else {
        rows.forEach((row, number) => row.lastChild.replaceChildren(...thumbs[number]));
        grid.replaceChildren(...rows);
      }
      heading.textContent = line ? `Heads by ${by}: ${by === "entropy" ? "lowest" : "strongest"} first` : LAYOUT;
    }

    function beside([down, right]) {
      if (line) {
        const here = line.findIndex(({ layer, head }) => layer === state.layer && head === state.head);
        return line[Math.max(0, Math.min(line.length - 1, here + down + right))];
      }
      const layer = Math.max(0, Math.min(thumbs.length - 1, state.layer + down));
      return { layer, head: Math.max(0, Math.min(thumbs[layer].length - 1, state.head + right)) };
    }
    grid.addEventListener("keydown", (event) => {
      const step = ARROWS[event.key];
      if (!step) return;
      event.preventDefault();
      const { layer, head } = beside(step);
      choose(layer, head).then(() => thumbs[layer][head].focus(), failed);
    });

    async function fetched(number) {
      if (!loaded.has(number)) loaded.set(number, source.load(number));
      try {
        const layer = await loaded.get(number);
        return Object.assign(layer, { queries: layer.axes[0].length, keys: layer.axes[1].length });
      } catch (error) {
        loaded.delete(number); // the next click tries again
        throw error;
      }
    }
    const current = () => fetched(state.layer);

    function drawThumbs(number, layer) {
      thumbs[number].forEach((button, head) => {
        const [rows, columns] = [Math.min(THUMB, layer.queries), Math.min(THUMB, layer.keys)];
        whence.drawHead(button.firstChild, layer, head, rows, columns, strength);
        button.classList.add("w-ready");
      });
    }

    function mark(on) {
      const button = thumbs[state.layer][state.head];
      button.tabIndex = on ? 0 : -1;
      button.setAttribute("aria-checked", String(on));
    }

    async function choose(number, head) {
      mark(false);
      Object.assign(state, { layer: number, head });
      mark(true);
      const layer = await fetched(number);
      if (!thumbs[number][0].classList.contains("w-ready")) drawThumbs(number, layer);
      if (state.layer === number && state.head === head) drawMap(layer); // else another was chosen meanwhile
    }

    function drawMap(layer) {
      const stream = streamOf(source.layers[state.layer]);
      const place = `Layer ${state.layer}${stream ? ` (${stream})` : ""}, head ${state.head}`;
      name.textContent = [place, ...said(state.layer, state.head)].join(" · ");
      state.view ??= Math.max(layer.queries, layer.keys) <= FEW ? "arcs" : "map";
      arcs.root.hidden = state.view !== "arcs";
      map.root.hidden = state.view !== "map";
      views.querySelector(`input[value="${state.view}"]`).checked = true;
      map.draw(layer, state.head, strength);
      scale.replaceChildren(whence.scaleBar(strength));
      drawToken(layer);
    }

    /** The token that is looked at first: where none sees those behind it, the last one, which predicts. */
    function firstToken(layer) {
      const { weight } = whence.headOf(layer, state.head);
      if (layer.queries !== layer.keys) return 0;
      for (let query = 0; query < Math.min(8, layer.queries); query++)
        for (let key = query + 1; key < layer.keys; key++) if (weight(query, key) > 0) return 0;
      return layer.queries - 1;
    }

    function drawToken(layer) {
      state.token ??= firstToken(layer);
      state.token = Math.min(state.token, (state.isRow ? layer.queries : layer.keys) - 1);
      map.frame(state.token, state.isRow);
      if (state.view === "arcs") arcs.draw(layer, state.head, state.token, state.isRow, strength);
      looks.draw(layer, state.head, state.token, state.isRow);
    }

    const directions = [
      ["from", "Where it looks"],
      ["to", "Who looks at it"],
    ];
    const turn = (direction) => {
      state.isRow = direction === "from";
      return current().then(drawToken);
    };
    const lift = async (on) => {
      strength = whence.strengths(on);
      for (const number of loaded.keys()) drawThumbs(number, await fetched(number));
      drawMap(await current());
    };
    const caption = "Choose a token to see where it looks. The same weight has the same colour in every head.";
    const figure = el("figure", {}, name, arcs.root, map.root, scale, el("figcaption", { class: "w-quiet", text: caption }));
    const kinds = [
      ["arcs", "Arcs"],
      ["map", "Map"],
    ];
    const views = whence.choice("Drawing", kinds, "arcs", (view) => {
      state.view = view;
      return current().then(drawMap);
    });
    const direction = whence.choice("Direction", directions, "from", turn);
    const tools = [
      views,
      direction,
      whence.toggle("Lift weak attention", true, lift),
    ];
    const orders = [["layer", "By layer"], ...Object.keys(ranks).map((by) => [by, `By ${by}`])];
    const order = orders.length > 1 ? whence.choice("Order", orders, "layer", sort) : null;
    const sorts = order && el("div", { class: "w-tools" }, order);
    root.replaceChildren(
      el("section", { class: "w-card w-noprint" }, heading, sorts, grid),
      el(
        "section",
        { class: "w-card" },
        el("div", { class: "w-tools" }, tools),
        el("div", { class: "w-look" }, figure, looks.side),
        looks.root,
      ),
    );

    function failed(error) {
      if (source.failed) return source.failed(error);
      return root.prepend(el("p", { class: "w-error", role: "alert", text: error.message }));
    }
    choose(0, 0)
      .then(async () => {
        for (let n = 1; source.eager && n < thumbs.length; n++) drawThumbs(n, await fetched(n));
        root.classList.add("w-complete");
      })
      .catch(failed);
  }

  Object.assign(whence, { heads });
})((globalThis.whence ??= {}));
