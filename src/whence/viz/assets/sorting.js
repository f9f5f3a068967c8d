// Tables that stand in a page: a head sorts by its column, buttons copy the whole as LaTeX or Markdown.
"use strict";
(function (whence) {
  const { el } = whence;

  /** The number that a cell begins with; what has none is not known. */
  const number = (text) => {
    const found = text.replace(/−/g, "-").match(/^[<[]?\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)/i);
    return found ? Number(found[1]) : null;
  };

  function arm(table, copies) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const written = (row, c) => row.cells[c].textContent.trim();
    heads.forEach((head, c) => {
      const filled = rows.map((row) => written(row, c)).filter((text) => text && text !== "–");
      const counts = filled.length > 0 && filled.every((text) => number(text) !== null);
      const key = (row) => (counts ? (number(written(row, c)) ?? -Infinity) : written(row, c));
      const compare = counts ? (a, b) => a - b : new Intl.Collator(undefined, { numeric: true }).compare;
      const button = el("button", { type: "button", text: head.textContent });
      button.addEventListener("click", () => {
        // a first click on numbers shows the largest
        const down = head.hasAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : counts;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...[...rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)) || rows.indexOf(a) - rows.indexOf(b)));
      });
      if (head.textContent) head.replaceChildren(button);
    });
    if (!copies) return;
    const bar = el("div", { class: "w-bar w-noprint" });
    bar.append(
      whence.copyButton("Copy as LaTeX", () => copies.latex),
      whence.copyButton("Copy as Markdown", () => copies.markdown),
    );
    table.closest(".w-tablebox").append(bar);
  }

  const { copies = [] } = JSON.parse(document.getElementById("whence-data").textContent);
  for (const table of document.querySelectorAll("table.w-sortable")) arm(table, copies[Number(table.dataset.copies)]);
})(globalThis.whence);
