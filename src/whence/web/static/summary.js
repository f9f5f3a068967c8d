// The summary of a run: its numbers, and its strongest words, which find their rows.
const whence = globalThis.whence;
const { el } = whence;

/** The parts of the summary's card; `find(word)` when a word is clicked. */
export function summary(sum, find) {
  const words = (title, found) => {
    const scale = whence.scaleOf(found.map((w) => w.mean));
    return el(
      "div",
      {},
      el("h3", { class: "small", text: title }),
      el(
        "p",
        { class: "w-text words" },
        found.slice(0, 24).flatMap((w) => [
          el("button", {
            type: "button",
            class: `w-t ${whence.shade(w.mean, scale)}`,
            title: `${whence.signed(w.mean)} points on average, in ${w.times} places: show its rows`,
            text: w.word,
            on: { click: () => find(w.word) },
          }),
          " ",
        ]),
      ),
    );
  };
  const facts = {
    rows: sum.rows.toLocaleString("en"),
    failed: sum.failed,
    tokens: sum.tokens.toLocaleString("en"),
    "model time": `${sum.seconds.toFixed(1)} s`,
    predictions: Object.entries(sum.predictions)
      .map(([k, v]) => `${k} ${v.toLocaleString("en")}`)
      .join(", "),
  };
  return [
    el("h2", { class: "small", text: "Summary" }),
    el(
      "dl",
      { class: "w-facts" },
      Object.entries(facts).map(([k, v]) => whence.fact(k, String(v))),
    ),
    el("p", { class: "w-quiet", text: "Words by their mean score, in points of what is explained. A click finds their rows." }),
    ...Object.entries(sum.by_class).map(([label, found]) => words(`Strongest for ${label}`, found)),
  ];
}
