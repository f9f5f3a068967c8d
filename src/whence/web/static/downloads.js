// The menu of files that the answer can be had as.
import { cancel, file, stopped } from "/static/api.js";
import { busy, problem, quiet } from "/static/status.js";

const { download, el, say } = globalThis.whence;
const FORMATS = [
  ["html", "Report"],
  ["svg", "Figure"],
  ["png", "Picture"],
  ["pdf", "Figure for print"],
  ["tex", "LaTeX"],
  ["txt", "Plain text"],
  ["json", "Exact, for whence"],
  ["csv", "Table"],
  ["npz", "Arrays"],
];

/** `request(format)`: the body of a request for what is shown; `path` makes files of it, but of the formats `without`. */
export function downloads(request, path = "/api/figure", without = []) {
  const menu = el("details", { class: "menu" });
  const items = FORMATS.filter(([format]) => !without.includes(format)).map(([format, label]) => {
    const click = async () => {
      menu.open = false;
      busy(`Making ${format}`, () => cancel("figure"));
      try {
        const { name, blob } = await file("figure", path, { ...request(format), format });
        download(name, blob);
        quiet();
      } catch (error) {
        if (stopped(error)) quiet();
        else problem(error, click);
      }
    };
    return el("button", { type: "button", on: { click } }, label, el("code", { text: `.${format}` }));
  });
  const top = el("summary", { class: "w-button", text: "Download" });
  const list = el("div", { role: "group", "aria-label": "Formats" }, items);
  menu.append(top, list);
  menu.addEventListener("toggle", () => {
    list.classList.remove("onward"); // towards the start of the line, unless it would end outside of the page
    if (list.getBoundingClientRect().left < 0) list.classList.add("onward");
  });
  menu.addEventListener("keydown", (event) => {
    const at = items.indexOf(document.activeElement);
    const step = { ArrowDown: at + 1, ArrowUp: at < 0 ? items.length - 1 : at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" && menu.open) {
      menu.open = false;
      top.focus();
    } else if (step !== undefined) {
      menu.open = true;
      items[(step + items.length) % items.length].focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return menu;
}

/** The figure as a picture on the clipboard; as a file where a page may not put one there. */
export function figureButton(request, path = "/api/figure") {
  const button = el("button", { type: "button", class: "w-button", text: "Copy figure" });
  button.addEventListener("click", async () => {
    busy("Drawing", () => cancel("figure"));
    try {
      const { blob } = await file("figure", path, { ...request("svg"), format: "svg" });
      const picture = await rastered(blob);
      quiet();
      try {
        await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
        button.textContent = "Copied";
      } catch {
        download("whence.png", picture);
        button.textContent = "Saved as a file";
      }
      say(button.textContent);
      setTimeout(() => (button.textContent = "Copy figure"), 1600);
    } catch (error) {
      if (stopped(error)) quiet();
      else problem(error);
    }
  });
  return button;
}

/** A drawing as a picture of twice its size, on white. */
async function rastered(blob) {
  const image = new Image();
  const source = URL.createObjectURL(blob);
  try {
    await new Promise((done, failed) => {
      image.addEventListener("load", done);
      image.addEventListener("error", () => failed(new Error("the figure could not be drawn")));
      image.src = source;
    });
    const canvas = el("canvas", { width: 2 * image.naturalWidth, height: 2 * image.naturalHeight });
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(source);
  }
}

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
