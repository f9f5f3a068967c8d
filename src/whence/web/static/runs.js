// The runs tab: a run is looked through like a table, with the words of each row coloured, and a row in a drawer.
import { cancel, get, stopped } from "/static/api.js";
import * as share from "/static/share.js";
import { busy, problem, quiet } from "/static/status.js";
import { summary } from "/static/summary.js";

const whence = globalThis.whence;
const { el, percent } = whence;
const PAGE = 25;
const SURE = 0.9;
const NOTHING = { query: "", failed: false, label: "", wrong: null, least: 0, order: "row", offset: 0 };

function empty() {
  return el(
    "div",
    { class: "w-card empty" },
    el("p", { text: "No finished run was opened." }),
    el(
      "p",
      {},
      "Explain a data set with ",
      el("code", { text: "whence run reviews.jsonl --out explained/" }),
      ", then ",
      el("code", { text: "whence serve --run explained/" }),
    ),
  );
}

/** `page`: the state of the page; `page.row` is the row that an address stands for, as run:number. */
export async function runs(view, info, page) {
  if (!info.runs.length) return view.replaceChildren(empty());
  const [named, opened] = (page.row ?? "").split(/:(?=\d+$)/);
  const state = { ...NOTHING, name: info.runs.includes(named) ? named : info.runs[0] };
  const list = el("div", { class: "runlist", role: "group", "aria-label": "Runs" });
  const side = el("section", { class: "w-card", id: "summary" });
  const memory = { view: "words" };
  const methods = Object.fromEntries(info.methods.map((m) => [m.name, m]));
  let known = []; // runs
  let shown = []; // rows

  /** Ask, and show what goes wrong. */
  async function asked(kind, what, path) {
    busy(what, () => cancel(kind));
    try {
      const answer = await get(kind, path);
      quiet();
      return answer;
    } catch (error) {
      if (!stopped(error)) problem(error);
      return null;
    }
  }

  const base = () => `/api/runs/${encodeURIComponent(state.name)}`;
  const entry = () => known.find((run) => run.name === state.name);

  async function drawList() {
    known = (await asked("runs", "Reading runs", "/api/runs")) ?? [];
    list.replaceChildren(
      ...known.map((run) => {
        const click = () => {
          Object.assign(state, NOTHING, { name: run.name });
          for (const button of list.children)
            button.setAttribute("aria-pressed", String(button.dataset.name === run.name));
          drawFilters();
          drawRows();
          drawSummary();
        };
        const failed = (run.failed ? `, ${run.failed} failed` : "") + (run.damaged ? ", damaged" : "");
        const facts = `${run.rows.toLocaleString("en")} rows${failed} · ${run.method} · ${run.model}`;
        return el(
          "button",
          { type: "button", data: { name: run.name }, "aria-pressed": String(run.name === state.name), on: { click } },
          el("b", { text: run.name }),
          el("p", { class: "w-quiet", text: facts }),
        );
      }),
    );
  }

  // -- which rows ------------------------------------------------------------------------------------------------

  const filters = el("div", { class: "w-bar filters" });
  const body = el("tbody");
  const count = el("p", { class: "w-quiet w-count", role: "status" });
  const step = (label, by) =>
    el("button", {
      type: "button",
      class: "w-button",
      text: label,
      on: { click: () => ((state.offset += by * PAGE), drawRows()) },
    });
  const [back, on] = [step("Back", -1), step("Next", 1)];

  /** Look for other rows, from the first. */
  function narrow(change) {
    Object.assign(state, change, { offset: 0 });
    drawFilters();
    return drawRows();
  }

  function drawFilters() {
    const focus = filters.contains(document.activeElement) ? document.activeElement.dataset.filter : null;
    const search = el("input", {
      type: "search",
      class: "w-input",
      placeholder: "Search",
      "aria-label": "Search the rows",
      data: { filter: "query" },
    });
    search.value = state.query;
    search.addEventListener("change", () => narrow({ query: search.value }));
    const select = (key, label, options) => {
      const box = el(
        "select",
        { class: "w-input", "aria-label": label, data: { filter: key } },
        options.map(([value, text]) => el("option", { value, text })),
      );
      box.value = String(state[key]);
      box.addEventListener("change", () => narrow({ [key]: key === "least" ? Number(box.value) : box.value }));
      return box;
    };
    const labels = Object.keys(predictions ?? {});
    const wrong = entry()?.labelled
      ? whence.toggle("Wrong and confident", state.wrong === true, (yes) =>
          narrow(yes ? { wrong: true, least: SURE, order: "sure" } : { wrong: null, least: 0, order: "row" }),
        )
      : el("span", {
          class: "w-quiet",
          title: "whence run DATA --target-column label … tells a run the truth; then wrong predictions can be found",
          text: "without labels",
        });
    filters.replaceChildren(
      search,
      select("label", "Predicted label", [["", "every label"], ...labels.map((label) => [label, label])]),
      select("least", "Confidence", [
        ["0", "any confidence"],
        ["0.5", "50\u00a0% and more"],
        ["0.9", "90\u00a0% and more"],
        ["0.99", "99\u00a0% and more"],
      ]),
      select("order", "Order", [
        ["row", "as in the data"],
        ["sure", "surest first"],
        ["unsure", "least sure first"],
      ]),
      wrong,
      whence.toggle("Failed only", state.failed, (failed) => narrow({ failed })),
      count,
    );
    if (focus) filters.querySelector(`[data-filter="${focus}"]`)?.focus();
  }

  const legend = el("p", { class: "w-quiet" });
  const head = el("tr");
  const rows = el(
    "section",
    { class: "w-card" },
    el("h2", { class: "small", text: "Rows" }),
    filters,
    legend,
    el(
      "div",
      { class: "w-scroll", tabindex: 0, role: "region", "aria-label": "Rows" },
      el(
        "table",
        { class: "w-table rowlist", "aria-label": "Rows of the run" },
        el(
          "thead",
          {},
          head,
        ),
        body,
      ),
    ),
    el("div", { class: "w-pager" }, back, on),
  );

  /** What is explained: the data's own labels, where the run was told them. */
  function drawHead() {
    const labelled = entry()?.labelled;
    const names = ["row", "text", "prediction", labelled ? "true label" : "explained"];
    head.replaceChildren(...names.map((name) => el("th", { scope: "col" }, el("span", { class: "w-quiet", text: name }))));
    const what = labelled ? "the true label" : "what is explained";
    legend.textContent = `Orange words speak for ${what}, blue ones against it. A click opens a row.`;
  }

  async function drawRows() {
    const query = new URLSearchParams({ offset: state.offset, limit: PAGE });
    if (state.query) query.set("query", state.query);
    if (state.failed) query.set("failed", "true");
    if (state.label) query.set("label", state.label);
    if (state.wrong !== null) query.set("wrong", String(state.wrong));
    if (Number(state.least)) query.set("least", state.least);
    if (state.order !== "row") query.set("order", state.order);
    const answer = await asked("runs", "Reading rows", `${base()}/rows?${query}`);
    if (!answer) return;
    drawHead();
    shown = answer.rows;
    back.disabled = state.offset === 0;
    on.disabled = state.offset + PAGE >= answer.total;
    count.textContent = answer.total
      ? `${state.offset + 1}–${state.offset + shown.length} of ${answer.total.toLocaleString("en")}`
      : "Nothing matches.";
    body.replaceChildren(...shown.map(line));
  }

  function line(row) {
    const scale = whence.scaleOf(row.pieces.map((piece) => piece.score));
    const text = row.pieces.length
      ? row.pieces.flatMap(({ gap, text: word, score }) => [gap, el("span", { class: `w-t ${whence.shade(score, scale)}`, text: word })])
      : (row.text ?? row.id);
    const cell = row.error
      ? el("span", { class: "fault", text: row.error })
      : el("button", { type: "button", dir: "auto", data: { row: row.row }, on: { click: () => open(row.row) } }, text);
    const wrong = entry()?.labelled && !row.error && row.prediction !== row.target;
    const share = row.probability;
    return el(
      "tr",
      { class: wrong ? "wrong" : "" },
      el("td", { text: String(row.row) }),
      el("td", {}, cell),
      el(
        "td",
        {},
        el("span", { text: row.prediction ?? "–" }),
        wrong ? el("b", { class: "fault", text: " wrong" }) : "",
        share === null
          ? null
          : el(
              "span",
              { class: "sure", title: "probability of the prediction" },
              el("span", { class: "w-track", "aria-hidden": "true" }, el("span", { class: "w-fill", style: { width: `${100 * share}%` } })),
              percent(share),
            ),
      ),
      el("td", {}, el("span", { text: row.target ?? "–" })),
    );
  }

  // -- one row ---------------------------------------------------------------------------------------------------

  const one = el("div", { class: "w-board", id: "row" });
  const place = el("p", { class: "w-quiet", role: "status" });
  const move = (by) => {
    const usable = shown.filter((row) => !row.error);
    const at = usable.findIndex((row) => row.row === current);
    const next = usable[at + by];
    if (next) open(next.row);
    else whence.say(by > 0 ? "This was the last row of the page" : "This was the first row of the page");
  };
  const button = (text, label, act) => el("button", { type: "button", class: "w-button", text, "aria-label": label, on: { click: act } });
  const drawer = el(
    "dialog",
    { class: "drawer", "aria-label": "A row of the run" },
    el(
      "div",
      { class: "w-bar" },
      button("↑ k", "Previous row", () => move(-1)),
      button("↓ j", "Next row", () => move(1)),
      place,
      whence.copyButton("Copy link", () => location.href),
      button("Close", "Close", () => drawer.close()),
    ),
    one,
  );
  let current = null;
  drawer.addEventListener("keydown", (event) => {
    if (event.target.matches("input:not([type=radio]):not([type=checkbox]), textarea, select")) return;
    const by = { j: 1, k: -1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(by);
  });
  drawer.addEventListener("close", () => {
    page.row = null;
    share.write(page);
    body.querySelector(`[data-row="${current}"]`)?.focus();
  });

  async function open(row) {
    current = row; // at once: somebody may press j twice
    const exp = await asked("row", `Opening row ${row}`, `${base()}/rows/${row}`);
    if (!exp || current !== row) return;
    page.row = `${state.name}:${row}`;
    share.write(page);
    place.textContent = `row ${row}`;
    whence.board(one, { explanations: [exp] }, { memory, methods });
    if (!drawer.open) drawer.showModal();
    drawer.scrollTop = 0;
    whence.say(`Row ${row}`);
  }

  // -- the whole -------------------------------------------------------------------------------------------------

  let predictions = null;

  async function drawSummary() {
    // a large run takes a while to add up; its rows can be looked at meanwhile
    side.replaceChildren(el("h2", { class: "small", text: "Summary" }), el("p", { class: "wait", text: "Adding up …" }));
    try {
      const sum = await get("summary", `${base()}/summary`);
      predictions = sum.predictions;
      side.replaceChildren(...summary(sum, (word) => (narrow({ query: word }), rows.scrollIntoView({ block: "start" }))));
      drawFilters();
    } catch (error) {
      side.replaceChildren();
      if (!stopped(error)) problem(error, drawSummary);
    }
  }

  view.replaceChildren(list, rows, side, drawer);
  await drawList();
  drawFilters();
  await drawRows();
  if (opened !== undefined && info.runs.includes(named)) await open(Number(opened));
  await drawSummary();
}
