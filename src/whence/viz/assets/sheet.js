// What a page of cards needs besides its text: print, and light or dark.
"use strict";
(function (whence) {
  document
    .getElementById("whence-actions")
    .append(
      whence.el("button", { type: "button", class: "w-button", text: "Print", on: { click: () => print() } }),
      whence.themeButton(),
    );
})(globalThis.whence);
