// The page of a report: reads its data from the page and draws the board.
"use strict";
(function (whence) {
  const data = JSON.parse(document.getElementById("whence-data").textContent);
  // what all explanations of one input share is in the first alone
  const [first] = data.explanations;
  const explanations = data.explanations.map((exp) => ({ ...first, ...exp }));
  const place = document.getElementById("whence-actions");
  const all = () => ({ format: first.format, explanations: explanations.map(whence.clean) });
  if (explanations.length > 1) place.append(whence.copyButton("Copy all as JSON", () => JSON.stringify(all())));
  place.append(
    whence.el("button", { type: "button", class: "w-button", text: "Print", on: { click: () => print() } }),
    whence.themeButton(),
  );
  whence.board(document.getElementById("whence-board"), { explanations });
})(globalThis.whence);
