// The menu of files that the answer can be had as.
import { cancel, file, stopped } from "/static/api.js";
import { busy, problem, quiet } from "/static/status.js";

const { download, el } = globalThis.whence;
const FORMATS = [
  ["html", "Report"],
  ["svg", "Figure"],
  ["png", "Picture"],
  ["pdf", "Figure for print"],
  ["tex", "LaTeX"],
  ["json", "Exact, for whence"],
  ["csv", "Table"],
  ["npz", "Arrays"],
];

/** `request(format)`: the body of a request for what is shown. */
export function downloads(request) {
  const menu = el("details", { class: "menu" });
  const items = FORMATS.map(([format, label]) => {
    const click = async () => {
      menu.open = false;
      busy(`Making ${format}`, () => cancel("figure"));
      try {
        const { name, blob } = await file("figure", "/api/figure", { ...request(format), format });
        download(name, blob);
        quiet();
      } catch (error) {
        if (stopped(error)) quiet();
        else problem(error, click);
      }
    };
    return el("button", { type: "button", on: { click } }, label, el("code", { text: `.${format}` }));
  });
  menu.append(el("summary", { class: "w-button", text: "Download" }), el("div", {}, items));
  return menu;
}

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
