// Files that are dropped or pasted anywhere on the page.
const { el } = globalThis.whence;
const veil = document.getElementById("drop");

/** `act(file, side)` for a file; `sides()` says whether there are two places to drop it on, and `side` then which. */
export function listen(act, sides) {
  let depth = 0; // enter and leave come in pairs for every element on the way
  const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (!holds(event)) return;
    depth += 1;
    if (veil.hidden) {
      const names = sides() ? ["Drop the first here", "Drop the second here"] : ["Drop a text, an image or a sound"];
      veil.replaceChildren(...names.map((text, n) => el("p", { text, data: sides() ? { side: n } : {} })));
    }
    veil.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!holds(event)) return;
    depth = Math.max(0, depth - 1);
    veil.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => holds(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    depth = 0;
    veil.hidden = true;
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    const side = event.target.closest?.("[data-side='0'], [data-side='1']")?.dataset.side;
    act(file, side === undefined ? null : Number(side));
  });
  addEventListener("paste", (event) => {
    const image = [...(event.clipboardData?.files ?? [])].find((file) => file.type.startsWith("image/"));
    if (!image) return;
    event.preventDefault();
    act(image);
  });
}
