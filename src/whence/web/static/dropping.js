// Files that are dropped or pasted anywhere on the page.
const veil = document.getElementById("drop");

export function listen(act) {
  let depth = 0; // enter and leave come in pairs for every element on the way
  const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (!holds(event)) return;
    depth += 1;
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
    act(file);
  });
  addEventListener("paste", (event) => {
    const image = [...(event.clipboardData?.files ?? [])].find((file) => file.type.startsWith("image/"));
    if (!image) return;
    event.preventDefault();
    act(image);
  });
}
