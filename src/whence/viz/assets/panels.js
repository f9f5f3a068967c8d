// What stands beside the scores: classes and their probabilities, bars, receipt, stamp.
"use strict";
(function (whence) {
  const { el, fact, known, percent, signed } = whence;

  const LONG = 14; // characters of a class that get more room than its bar

  /** Classes with their probabilities as bars. Those that `can(label)` are buttons, and `act(label)` explains one. */
  function classes(prediction, { chosen, can, act, most = 10 }) {
    const rows = prediction.labels.slice(0, most).map((label, i) => {
      const share = prediction.probabilities?.[i];
      const bar = el("span", { class: "w-fill", style: { width: `${100 * (share ?? 0)}%` } });
      const inside = [
        el("span", { class: "w-name" }, el("bdi", { text: label.trim() ? label : JSON.stringify(label) })),
        el("span", { class: "w-track", "aria-hidden": "true" }, bar),
        el("span", { class: "w-value", text: known(share) ? percent(share) : signed(prediction.scores?.[i]) }),
      ];
      if (!can(label)) return el("div", { class: "w-class", data: { label } }, inside);
      const pressed = label === chosen ? "true" : "false";
      const options = {
        type: "button",
        class: "w-class",
        "aria-pressed": pressed,
        data: { label },
        on: { click: () => act(label) },
      };
      return el("button", options, inside);
    });
    const box = el(
      "div",
      {
        class: `w-classes${rows.length > 5 ? " w-dense" : ""}${prediction.labels.some((label) => label.length > LONG) ? " w-long" : ""}`,
        role: "group",
        "aria-label": "Classes: choose which one is explained",
      },
      rows,
    );
    if (prediction.labels.length > most)
      box.append(el("p", { class: "w-quiet", text: `and ${prediction.labels.length - most} more` }));
    return box;
  }

  /** How much of the whole each of several inputs has. */
  function shares(one) {
    const names = { token: "text", patch: "picture", pixel: "picture", frame: "sound" };
    return one.sections.map(({ exp, scores }) => {
      const { kind } = exp.parts[0];
      const sum = scores.reduce((a, b) => a + (b ?? 0), 0);
      return el("span", { class: "w-quiet w-max", text: `${names[kind] ?? kind} ${signed(sum)}` });
    });
  }

  /** The strongest features as bars around a middle line, largest size first. */
  function bars(found, { scale = found.scale, most = 10, light, worded = signed, special = true } = {}) {
    const order = Array.from(found.rank.keys())
      .filter((i) => special || !found.parts[i].special)
      .sort((a, b) => found.rank[a] - found.rank[b])
      .slice(0, most);
    const sided = order.some((i) => found.scores[i] < 0); // without a negative one there is no middle
    const rows = order.map((i) => {
      const score = found.scores[i] ?? 0;
      const width = `${(sided ? 50 : 100) * Math.min(1, Math.abs(score) / scale)}%`;
      const bar = el("span", { class: score < 0 ? "w-against" : "w-for", style: { width } });
      const on = light ? { pointerenter: () => light(i), pointerleave: () => light(null) } : {};
      return el(
        "li",
        { on },
        el("span", { class: "w-name" }, el("bdi", { text: found.parts[i].text.trim() || "␣" })),
        el("span", { class: sided ? "w-middle" : "w-middle w-onesided", "aria-hidden": "true" }, bar),
        el("span", { class: "w-value", text: worded(found.scores[i]) }),
      );
    });
    return el("ol", { class: "w-bars", "aria-label": "Strongest features" }, rows);
  }

  /** The steps from nothing to the score: what sinks keep, the special tokens, the words, what is not accounted for. */
  function steps({ parts, scores }, c, most) {
    const order = { bias: 0, position: 1, constant: 2 };
    const sinks = Object.entries(c.sinks ?? {})
      .filter(([kind]) => kind !== "unruled")
      .sort(([a], [b]) => (order[a] ?? 9) - (order[b] ?? 9))
      .map(([name, amount]) => ({ name, amount, kind: "sink" }));
    const left = { name: c.complete ? "not accounted for" : "not booked", kind: "rest" };
    left.amount = (c.complete ? c.error : null) ?? c.target - c.inputs - (c.complete ? sinks.reduce((a, s) => a + s.amount, 0) : 0);
    if (!parts) return [{ name: "inputs", amount: c.inputs, kind: "word" }, ...sinks, left];
    const made = [...sinks];
    const rank = Array.from(scores.keys()).sort((a, b) => Math.abs(scores[b] ?? 0) - Math.abs(scores[a] ?? 0));
    const own = rank.filter((i) => !parts[i].special);
    const named = own.slice(0, own.length === most + 1 ? most + 1 : most).sort((a, b) => a - b);
    const sum = (list) => list.reduce((total, i) => total + (scores[i] ?? 0), 0);
    const specials = rank.filter((i) => parts[i].special);
    if (specials.length) made.push({ name: "special tokens", amount: sum(specials), kind: "sink" });
    const shown = sum(rank);
    for (const i of named) made.push({ name: parts[i].text.trim() || "white space", amount: scores[i] ?? 0, kind: "word", i });
    const rest = own.filter((i) => !named.includes(i));
    if (rest.length) made.push({ name: `${rest.length} others`, amount: sum(rest), kind: "word" });
    const hidden = c.inputs - shown;
    if (Math.abs(hidden) > 1e-4 * Math.max(1, Math.abs(c.inputs)))
      made.push({ name: "left out of the view", amount: hidden, kind: "sink" });
    return [...made, left];
  }

  /** Where the explained score came from, as a waterfall: bias → position → words → score. */
  function receipt(one, { most = 6 } = {}) {
    const exp = one.exp ?? one; // features.js has what an explanation consists of; a sum of several has no features
    const c = exp.conservation;
    if (!c) return el("p", { class: "w-quiet", text: "This method keeps no account: its scores do not sum to the target." });
    const made = steps(one, c, most);
    let at = 0;
    for (const step of made) Object.assign(step, { from: at, to: (at += step.amount ?? 0) });
    const ends = [0, c.target, ...made.flatMap(({ from, to }) => [from, to])].filter(known);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const place = (value) => (100 * (value - low)) / (high - low || 1);
    const bar = (from, to, kind) => {
      const [a, b] = [place(Math.min(from, to)), place(Math.max(from, to))];
      const zero = el("span", { class: "w-zero", style: { left: `${place(0)}%` } });
      const own = el("span", { class: `w-step ${kind}`, style: { left: `${a}%`, width: `max(2px, ${b - a}%)` } });
      return el("td", { class: "w-fall", "aria-hidden": "true" }, el("div", {}, zero, own));
    };
    const rows = made.map(({ name, amount, from, to, kind }) =>
      el(
        "tr",
        { class: `w-of-${kind}` },
        el("th", { scope: "row" }, el("bdi", { text: name })),
        bar(from, to, kind === "rest" ? "w-k-rest" : amount < 0 ? "w-fell" : "w-up"),
        el("td", { class: "w-right", text: signed(amount) }),
      ),
    );
    rows.push(
      el(
        "tr",
        { class: "w-sum" },
        el("th", { scope: "row" }, "= ", el("bdi", { text: exp.target })),
        bar(0, c.target, "w-whole"),
        el("td", { class: "w-right", text: signed(c.target) }),
      ),
    );
    const kept = Object.values(c.sinks ?? {}).reduce((sum, amount) => sum + (amount ?? 0), 0);
    const books = `inputs ${signed(c.inputs)}${c.complete ? `, sinks ${signed(kept)}` : ""}`;
    const notes = [];
    if (c.unruled?.length) notes.push(`Functions without a rule: ${c.unruled.join(", ")}.`);
    if (!c.complete) notes.push('This method did not book where the rest went (receipt="full" does).');
    if (exp.left_out) notes.push(`Left out of the view: ${signed(exp.left_out)}.`);
    return el(
      "div",
      { class: "w-receipt" },
      el("table", { "aria-label": "Receipt" }, el("caption", { class: "w-quiet", text: books }), el("tbody", {}, rows)),
      el("p", { class: "w-quiet", text: "From nothing to the score: each step begins where the one before it ended." }),
      notes.map((note) => el("p", { class: "w-quiet", text: note })),
    );
  }

  const worded = (value) =>
    value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);

  /** Model, revision, versions, options. */
  function stamp(exp) {
    const list = (values) =>
      el(
        "dl",
        { class: "w-facts" },
        Object.entries(values).map(([name, value]) => fact(name, worded(value))),
      );
    const parts = [
      list({
        method: exp.method,
        ...(exp.target ? { target: exp.target, "target score": signed(exp.target_score) } : {}),
        ...exp.stamp,
      }),
    ];
    if (Object.keys(exp.options ?? {}).length) parts.push(el("h3", { text: "Options" }), list(exp.options));
    return el("div", { class: "w-stamp" }, parts);
  }

  /** From blue through nothing to orange, in words. */
  function legend(target = "") {
    const what = target.length > 40 ? "it" : target.trim();
    const word = (text) => el("span", {}, text, what ? el("bdi", { class: "w-strong", text: ` ${what}` }) : "");
    return el(
      "div",
      { class: "w-legend", role: "img", "aria-label": "Colours: blue speaks against the target, orange for it" },
      word(what ? "speaks against" : "against"),
      el("span", { class: "w-ramp" }),
      word(what ? "speaks for" : "for"),
    );
  }

  Object.assign(whence, { bars, classes, legend, receipt, shares, stamp });
})((globalThis.whence ??= {}));
