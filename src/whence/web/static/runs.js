// The runs tab: finished runs, their rows page by page, one row as an explanation, and the summary.
import { cancel, get, stopped } from "/static/api.js";
import { busy, problem, quiet } from "/static/status.js";

const whence = globalThis.whence;
const { el } = whence;
const PAGE = 25;

export async function runs(view, info) {
  if (!info.runs.length) {
    view.replaceChildren(
      el(
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
      ),
    );
    return;
  }
  const state = { name: info.runs[0], offset: 0, query: "", failed: false };
  const list = el("div", { class: "runlist", role: "group", "aria-label": "Runs" });
  const rows = el("section", { class: "w-card" });
  const side = el("section", { class: "w-card", id: "summary" });
  const one = el("div", { class: "w-board", id: "row" });
  const memory = {};

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

  async function drawList() {
    const found = (await asked("runs", "Reading runs", "/api/runs")) ?? [];
    list.replaceChildren(
      ...found.map((run) => {
        const click = () => {
          Object.assign(state, { name: run.name, offset: 0 });
          for (const button of list.children)
            button.setAttribute("aria-pressed", String(button.dataset.name === run.name));
          one.replaceChildren();
          drawRows();
          drawSummary();
        };
        const failed = run.failed ? `, ${run.failed} failed` : "";
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
  const search = el("input", {
    type: "search",
    class: "w-input",
    placeholder: "Search",
    "aria-label": "Search the rows",
  });
  search.addEventListener("change", () => {
    Object.assign(state, { query: search.value, offset: 0 });
    drawRows();
  });
  rows.append(
    el("h3", { text: "Rows" }),
    el(
      "div",
      { class: "w-bar" },
      search,
      whence.toggle("Failed only", false, (failed) => (Object.assign(state, { failed, offset: 0 }), drawRows())),
      count,
      el("div", { class: "w-pager" }, back, on),
    ),
    el(
      "div",
      { class: "w-scroll", tabindex: 0, role: "region", "aria-label": "Rows" },
      el(
        "table",
        { class: "w-table rowlist", "aria-label": "Rows of the run" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["row", "text", "prediction", "explained"].map((name) =>
              el("th", { scope: "col" }, el("span", { class: "w-quiet", text: name })),
            ),
          ),
        ),
        body,
      ),
    ),
  );

  async function drawRows() {
    const query = new URLSearchParams({ offset: state.offset, limit: PAGE });
    if (state.query) query.set("query", state.query);
    if (state.failed) query.set("failed", "true");
    const answer = await asked("runs", "Reading rows", `${base()}/rows?${query}`);
    if (!answer) return;
    back.disabled = state.offset === 0;
    on.disabled = state.offset + PAGE >= answer.total;
    count.textContent = answer.total
      ? `${state.offset + 1}–${state.offset + answer.rows.length} of ${answer.total.toLocaleString("en")}`
      : "Nothing matches.";
    body.replaceChildren(
      ...answer.rows.map((row) => {
        const shown = row.text ?? row.id;
        const text = row.error
          ? el("span", { class: "fault", text: row.error })
          : el("button", { type: "button", dir: "auto", on: { click: () => open(row.row) } }, shown);
        return el(
          "tr",
          {},
          el("td", { text: String(row.row) }),
          el("td", {}, text),
          el("td", { text: row.prediction ?? "–" }),
          el("td", { text: row.target ?? "–" }),
        );
      }),
    );
  }

  async function open(row) {
    const exp = await asked("row", `Opening row ${row}`, `${base()}/rows/${row}`);
    if (!exp) return;
    whence.board(one, { explanations: [exp] }, { memory });
    one.scrollIntoView({ block: "start" });
    whence.say(`Row ${row}`);
  }

  async function drawSummary() {
    // a large run takes a while to add up; its rows can be looked at meanwhile
    side.replaceChildren(el("h3", { text: "Summary" }), el("p", { class: "wait", text: "Adding up …" }));
    let sum;
    try {
      sum = await get("summary", `${base()}/summary`);
    } catch (error) {
      side.replaceChildren();
      return stopped(error) ? null : problem(error, drawSummary);
    }
    const words = (title, found) => {
      const scale = whence.scaleOf(found.map((w) => w.mean));
      return el(
        "div",
        {},
        el("h4", { text: title }),
        el(
          "p",
          { class: "w-text" },
          found.slice(0, 24).flatMap((w) => [
            el("span", {
              class: `w-t ${whence.shade(w.mean, scale)}`,
              title: `${whence.signed(w.mean)} on average, ${w.times} times`,
              text: w.word,
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
      seconds: sum.seconds.toFixed(1),
      predictions: Object.entries(sum.predictions)
        .map(([k, v]) => `${k} ${v}`)
        .join(", "),
    };
    side.replaceChildren(
      el("h3", { text: "Summary" }),
      el(
        "dl",
        { class: "w-facts" },
        Object.entries(facts).map(([k, v]) => whence.fact(k, String(v))),
      ),
      Object.entries(sum.by_class)
        .map(([label, found]) => words(`Strongest for ${label}`, found))
        .reduce((box, part) => (box.append(part), box), el("div")),
    );
  }

  view.replaceChildren(list, one, rows, side);
  await drawList();
  await drawRows();
  await drawSummary();
}
