// A table of features: sorted by any column, filtered by text, a page at a time.
"use strict";
(function (whence) {
  const { el } = whence;
  const PAGE = 50;

  /** `columns`: [{name, values, kind: "text"|"number"|"score", scale, digits}]; all of one length. */
  function table(label, columns, { sort = 0, down = false, pick } = {}) {
    const count = columns[0].values.length;
    const state = { sort, down, page: 0, filter: "" };
    let order = [];
    const body = el("tbody");
    const said = el("p", { class: "w-quiet w-count", role: "status" });
    const heads = columns.map((column, c) => {
      const button = el("button", { type: "button", text: column.name });
      button.addEventListener("click", () => {
        // a first click on a score shows the strongest, a second the other end
        Object.assign(state, { down: state.sort === c ? !state.down : column.kind === "score", sort: c, page: 0 });
        arrange();
      });
      return el("th", { scope: "col", class: column.kind === "text" ? "" : "w-right" }, button);
    });

    function arrange() {
      const { values, kind } = columns[state.sort];
      const wanted = state.filter.trim().toLocaleLowerCase();
      const texts = columns.filter((column) => column.kind === "text");
      order = Array.from({ length: count }, (_, i) => i);
      if (wanted) order = order.filter((i) => texts.some((t) => t.values[i].toLocaleLowerCase().includes(wanted)));
      const size = kind === "score" ? (v) => Math.abs(v ?? 0) : (v) => v ?? -Infinity; // the strongest, for or against
      const compare = kind === "text" ? new Intl.Collator().compare : (a, b) => size(a) - size(b);
      const sign = state.down ? -1 : 1;
      order.sort((a, b) => sign * compare(values[a], values[b]) || a - b);
      heads.forEach((head, c) => {
        if (c === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      show();
    }

    function show() {
      const pages = Math.max(1, Math.ceil(order.length / PAGE));
      state.page = Math.max(0, Math.min(pages - 1, state.page));
      const shown = order.slice(state.page * PAGE, (state.page + 1) * PAGE);
      body.replaceChildren(...shown.map(row));
      said.textContent = order.length
        ? `${state.page * PAGE + 1}–${state.page * PAGE + shown.length} of ${order.length}`
        : "Nothing matches.";
      back.disabled = state.page === 0;
      on.disabled = state.page >= pages - 1;
      pager.hidden = pages === 1;
    }

    function row(i) {
      const cells = columns.map(({ values, kind, scale, digits }) => {
        if (kind === "text") return el("td", {}, el("bdi", { text: values[i] }));
        if (kind === "number")
          return el("td", {
            class: "w-right",
            text: digits === undefined ? String(values[i]) : values[i].toFixed(digits),
          });
        const chip = el("span", { class: `w-chip ${whence.shade(values[i], scale)}`, text: whence.signed(values[i]) });
        return el("td", { class: "w-right" }, chip);
      });
      return el(
        "tr",
        { data: { row: i }, on: pick ? { pointerenter: () => pick(i), pointerleave: () => pick(null) } : {} },
        cells,
      );
    }

    const back = el("button", {
      type: "button",
      class: "w-button",
      text: "Back",
      on: { click: () => (state.page--, show()) },
    });
    const on = el("button", {
      type: "button",
      class: "w-button",
      text: "Next",
      on: { click: () => (state.page++, show()) },
    });
    const pager = el("div", { class: "w-pager" }, back, on);
    const filter = el("input", {
      type: "search",
      class: "w-input",
      placeholder: "Filter",
      "aria-label": "Filter the features",
    });
    filter.addEventListener("input", () => {
      Object.assign(state, { filter: filter.value, page: 0 });
      arrange();
    });
    const grid = el("table", { class: "w-table", "aria-label": label }, el("thead", {}, el("tr", {}, heads)), body);
    arrange();
    return el(
      "div",
      { class: "w-tablebox" },
      el("div", { class: "w-bar" }, filter, said, pager),
      el("div", { class: "w-scroll", tabindex: 0, role: "region", "aria-label": label }, grid),
    );
  }

  Object.assign(whence, { table });
})((globalThis.whence ??= {}));
