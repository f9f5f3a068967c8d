// The page of a trace.
"use strict";
(function (whence) {
  const data = JSON.parse(document.getElementById("whence-data").textContent);
  const { el } = whence;
  document
    .getElementById("whence-actions")
    .append(
      el("button", { type: "button", class: "w-button", text: "Print", on: { click: () => print() } }),
      whence.themeButton(),
    );
  const root = document.getElementById("whence-trace");
  whence.trace(root, data);
  root.append(el("section", { class: "w-card" }, el("h2", { text: "Stamp" }), whence.stamp({ ...data.whole, target: "" })));
})(globalThis.whence);
