// The numbers of one explanation: what a tip says about a feature, and the cards under the rows.
"use strict";
(function (whence) {
  const { el, fact, percent, signed } = whence;

  /** The numbers of feature `i` of `one`, and those that the explanations beside it give the same feature. */
  function featureTip(one, i, beside, scaleFor) {
    const { exp, parts, scores, rank, total, count } = one;
    const facts = [
      fact("score", signed(scores[i])),
      fact("share", percent(Math.abs(scores[i] ?? 0) / total)),
      fact("rank", `${rank[i]} of ${count}`),
    ];
    const place = whence.place(exp, parts[i]);
    if (place) facts.push(fact("characters", place));
    if (exp.sides?.length) facts.push(fact("part", exp.sides[parts[i].tokens[0]]));
    const others = beside.filter((other) => other !== one && other.parts.length === parts.length).slice(0, 8);
    const lines = others.map((other) => {
      const shade = whence.shade(other.scores[i], scaleFor(other));
      const chip = el("span", { class: `w-chip ${shade}`, text: signed(other.scores[i]) });
      return [el("dt", { text: other.exp.method }), el("dd", {}, chip)];
    });
    const name = el("bdi", { text: parts[i].text.trim() || "white space" });
    return [
      el("p", { class: "w-tipname" }, name, el("span", { text: exp.method })),
      el("dl", { class: "w-facts" }, facts),
      ...(lines.length ? [el("dl", { class: "w-facts w-beside" }, lines)] : []),
    ];
  }

  /** Columns of the table: a score per method; for one method alone also share, rank and place. */
  function columns(one, all, scaleFor, noun) {
    const { exp, parts, scores, rank, total } = one;
    const made = [
      { name: "#", values: parts.map((_, i) => i + 1), kind: "number" },
      { name: noun, values: parts.map((part) => part.text.trim()), kind: "text" },
    ];
    for (const other of all) {
      if (other.parts.length !== parts.length) continue;
      made.push({ name: other.exp.method, values: other.scores, kind: "score", scale: scaleFor(other) });
    }
    if (all.length > 1) return made;
    const shares = scores.map((score) => (100 * Math.abs(score ?? 0)) / total);
    made.push({ name: "share\u00a0%", values: shares, kind: "number", digits: 2 });
    made.push({ name: "rank", values: Array.from(rank), kind: "number" });
    const places = parts.map((part) => whence.place(exp, part));
    if (places.some(Boolean)) made.push({ name: "characters", values: places, kind: "text" });
    return made;
  }

  /** The cards of `one`, an explanation among `all`: strongest, receipt, table, stamp. */
  function details(one, all, { scaleFor, light, noun, methods, special = true }) {
    const card = (title, ...children) => el("section", { class: "w-card" }, el("h3", { text: title }), children);
    const by = all.length > 1 ? ` · ${whence.title(one.exp.method, methods)}` : "";
    const gloss = () => el("p", { class: "w-quiet w-gloss", text: `${whence.unit(one.exp)}.` });
    const found = columns(one, all, scaleFor, noun);
    const sort = found.findIndex((column) => column.kind === "score" && column.name === one.exp.method);
    const json = () => JSON.stringify(clean(one.exp));
    const save = { click: () => whence.download(`${one.exp.method}.json`, json()) };
    return [
      card(`Strongest ${noun === "patch" ? "patche" : noun}s${by}`, whence.bars(one, { light, special }), gloss()),
      card(`Receipt${by}`, whence.receipt(one)),
      card("All features", whence.table("All features", found, { sort, down: true, pick: light })),
      card(
        `Stamp${by}`,
        whence.stamp(one.exp),
        el(
          "div",
          { class: "w-bar" },
          whence.copyButton("Copy as JSON", json),
          el("button", { type: "button", class: "w-button", text: "Download JSON", on: save }),
        ),
      ),
    ];
  }

  /** An explanation as `Explanation.load` reads it: without what was added for the page. */
  function clean(exp) {
    const { image, words, verdict, ...rest } = exp;
    return rest;
  }

  Object.assign(whence, { clean, details, featureTip });
})((globalThis.whence ??= {}));
