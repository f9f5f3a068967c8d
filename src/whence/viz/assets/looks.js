// Where one token looks: the tokens coloured by the weights of one row (or column) of a map, and the strongest as bars.
"use strict";
(function (whence) {
  const { el, fact } = whence;
  const equal = (a, b) => a === b || (a.length === b.length && a.every((token, i) => token === b[i]));
  const named = (token) => token?.trim() || "white space";
  const scored = (tokens, scores) =>
    whence.features({ tokens, scores, text: null, offsets: [], special: [], sides: [] });

  const tip = (name, weight) => [
    el("p", { class: "w-tipname" }, el("bdi", { text: name })),
    el("dl", { class: "w-facts" }, fact("weight", weight.toFixed(4))),
  ];

  /** Where the patches of an image stand among tokens named "patch row,column": {first, rows, columns}, or nothing. */
  function patchesOf(tokens) {
    const cells = tokens.map((token) => /^patch (\d+),(\d+)$/.exec(token));
    const first = cells.findIndex(Boolean);
    const last = first < 0 ? null : cells.findLast(Boolean);
    return last && { first, rows: Number(last[1]) + 1, columns: Number(last[2]) + 1 };
  }

  /**
   * Two elements, `root` with the tokens and `side` with the strongest; `pick(i)` when another token is chosen. Weights
   * of patches are drawn over the `image` as well.
   */
  function looks(pick, image) {
    const root = el("div", { class: "w-looks" });
    const side = el("div", { class: "w-side" });
    let shown = null; // the views and the tokens they were made for

    function build(asking, seen, found, label) {
      const over = (i, span) => {
        whence.showTip(tip(named(seen[i]), shown.found.scores[i]), span);
      };
      const same = equal(asking, seen);
      const hear = { over, out: () => whence.showTip(null), pick: same ? pick : undefined };
      const weights = whence.text(found, { label, scale: found.scale, hear });
      shown = { asking, seen, label, weights, askers: weights };
      if (same) return root.replaceChildren(weights.root);
      const blank = scored(asking, asking.map(() => 0)); // prettier-ignore
      shown.askers = whence.text(blank, { label: "Choose a token", scale: 1, hear: { pick } });
      const title = (text) => el("p", { class: "w-quiet", text });
      return root.replaceChildren(title("Choose a token"), shown.askers.root, title("Weights"), weights.root);
    }

    /** The weights over the image they belong to. */
    function over(seen, scores, at) {
      const grid = image && patchesOf(seen);
      if (!grid) return null;
      const { first, rows, columns } = grid;
      const matrix = Array.from({ length: rows }, (_, r) =>
        scores.slice(first + r * columns, first + (r + 1) * columns),
      );
      const found = whence.features({ scores: matrix, image }).sections[0];
      const hear = {
        over: (i, patch) => whence.showTip(tip(found.parts[i].text, found.scores[i]), patch),
        out: () => whence.showTip(null),
        pick: (i) => pick(first + i),
      };
      const view = whence.overlay(found, {
        label: "The image under the weights",
        scale: found.scale,
        opacity: 0.5,
        smooth: false,
        hear,
      });
      if (at >= first && at < first + rows * columns) view.light(at - first);
      return view.root;
    }

    return {
      root,
      side,
      /** Show token `at` of a head: where it looks, or who looks at it. */
      draw(layer, head, at, isRow) {
        const [asking, seen] = isRow ? layer.axes : [layer.axes[1], layer.axes[0]];
        const { weight } = whence.headOf(layer, head);
        const found = scored(
          seen,
          seen.map((_, i) => (isRow ? weight(at, i) : weight(i, at))),
        );
        const label = isRow
          ? "Tokens, coloured by how much the chosen one looks at them"
          : "Tokens, coloured by how much they look at the chosen one";
        const fits = shown && shown.label === label && equal(shown.asking, asking) && equal(shown.seen, seen);
        if (!fits) build(asking, seen, found, label);
        shown.found = found;
        shown.weights.colour(found.scores, 1); // weights are shares: 1 is all of it
        shown.askers.light(at);
        const who = el("bdi", { class: "w-strong", text: named(asking[at]) });
        const held = side.contains(document.activeElement);
        const picture = over(seen, found.scores, at);
        side.replaceChildren(
          el("p", { class: "w-quiet" }, who, isRow ? " looks at" : " is looked at by"),
          ...(picture ? [picture] : []),
          whence.bars(found, { scale: 1, most: picture ? 6 : 12, worded: (value) => value.toFixed(3) }),
        );
        if (held) picture?.focus();
      },
    };
  }

  Object.assign(whence, { looks });
})((globalThis.whence ??= {}));
