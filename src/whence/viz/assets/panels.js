// What stands beside the scores: classes and their probabilities, bars, receipt, stamp.
"use strict";
(function (whence) {
  const { el, fact, known, percent, signed } = whence;

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
        class: rows.length > 5 ? "w-classes w-dense" : "w-classes",
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
  function bars(found, { scale = found.scale, most = 10, light, worded = signed } = {}) {
    const order = Array.from(found.rank.keys())
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

  /** Where the explained score went: inputs, sinks by kind and what is not accounted for, as a bar and in numbers. */
  function receipt(exp) {
    const c = exp.conservation;
    if (!c)
      return el("p", {
        class: "w-quiet",
        text: "This method makes no promise that its scores add up to the explained score.",
      });
    const parts = [["inputs", c.inputs], ...Object.entries(c.sinks ?? {})];
    if (c.complete) parts.push(["not accounted for", c.error]);
    else parts.push(["not booked", c.target - c.inputs]);
    const whole = parts.reduce((sum, [, amount]) => sum + Math.abs(amount ?? 0), 0) || 1;
    const strip = el("div", { class: "w-strip", "aria-hidden": "true" });
    const rows = parts.map(([name, amount], n) => {
      const kind = n === parts.length - 1 ? "w-k-rest" : `w-k${n % 7}`;
      const size = Math.abs(amount ?? 0) / whole;
      if (size > 0.002)
        strip.append(
          el("span", {
            class: `${kind} ${amount < 0 ? "w-minus" : ""}`,
            title: `${name} ${signed(amount)}`,
            style: { "flex-grow": size },
          }),
        );
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, el("span", { class: `w-key ${kind}`, "aria-hidden": "true" }), name),
        el("td", { class: "w-right", text: signed(amount) }),
      );
    });
    rows.push(
      el(
        "tr",
        { class: "w-sum" },
        el("th", { scope: "row", text: `= ${exp.target}` }),
        el("td", { class: "w-right", text: signed(c.target) }),
      ),
    );
    const notes = [];
    if (c.unruled?.length) notes.push(`Functions without a rule: ${c.unruled.join(", ")}.`);
    if (!c.complete) notes.push('This method did not book where the rest went (receipt="full" does).');
    if (exp.left_out) notes.push(`Left out of the view: ${signed(exp.left_out)}.`);
    return el(
      "div",
      { class: "w-receipt" },
      strip,
      el("table", { "aria-label": "Receipt" }, el("tbody", {}, rows)),
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
    if (Object.keys(exp.options ?? {}).length) parts.push(el("h4", { text: "Options" }), list(exp.options));
    return el("div", { class: "w-stamp" }, parts);
  }

  /** From blue through nothing to orange. */
  function legend() {
    return el(
      "div",
      { class: "w-legend", role: "img", "aria-label": "Colours: blue speaks against the target, orange for it" },
      el("span", { text: "against" }),
      el("span", { class: "w-ramp" }),
      el("span", { text: "for" }),
    );
  }

  Object.assign(whence, { bars, classes, legend, receipt, shares, stamp });
})((globalThis.whence ??= {}));
