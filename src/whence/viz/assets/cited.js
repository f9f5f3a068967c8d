// Citations: what is pointed at, a statement or a sentence, lights up what belongs to it; a click keeps it lit.
"use strict";
(function (whence) {
  /** Bring the elements of citations_page.py in `root` to life. */
  whence.cited = function (root, data) {
  const statements = [...root.querySelectorAll("[data-statement]")];
  const sentences = [...root.querySelectorAll("[data-sentence]")];
  const heading = root.querySelector('[data-role="shares"]');
  const told = heading.textContent;
  const whole = (share) => `${Math.round(100 * share)}\u00a0%`;
  const rest = Object.keys(data.rest);
  let kept = null;

  const sharesOf = (span) => data.sentences[span.dataset.document][span.dataset.sentence];

  function colour(span, base, share) {
    const kind = `${base}${share >= data.notable ? " w-marked" : ""} ${whence.shade(share, data.full)}`;
    if (span.className !== kind) span.className = kind;
  }

  function bars({ documents, rest: others, says }) {
    const set = (key, share) => {
      const row = root.querySelector(`[data-key="${key}"]`);
      row.querySelector(".w-part").setAttribute("width", 100 * share);
      row.querySelector(".w-value").textContent = whole(share);
    };
    documents.forEach((share, n) => {
      set(`document-${n}`, share);
      root.querySelector(`[data-share="${n}"]`).textContent = whole(share);
    });
    rest.forEach((name) => set(`rest-${name}`, others[name]));
    root.querySelector('[data-share="elsewhere"]').textContent = says;
  }

  /** {statement: n}, {sentence: span}, or nothing for the whole answer. */
  function show(what) {
    const { statement = null, sentence = null } = what ?? {};
    for (const span of sentences) {
      const shares = sharesOf(span);
      const share = statement !== null ? shares[statement] : sentence === null || sentence === span ? Math.max(0, ...shares) : 0;
      colour(span, "w-sentence", share);
      span.title = statement !== null ? `${whole(share)} of this statement` : `${whole(Math.max(0, ...shares))} of a statement`;
      span.classList.toggle("w-chosen-one", sentence === span);
      span.setAttribute("aria-pressed", String(kept?.sentence === span));
    } // prettier-ignore
    statements.forEach((span, n) => {
      colour(span, "w-statement", sentence === null ? 0 : sharesOf(sentence)[n]);
      span.title = sentence === null ? "" : `${whole(sharesOf(sentence)[n])} of it is from this sentence`;
      span.classList.toggle("w-chosen-one", statement === n);
      span.classList.toggle("w-faint", statement !== null && statement !== n);
      span.setAttribute("aria-pressed", String(kept?.statement === n));
    });
    bars(statement === null ? data : data.statements[statement]);
    heading.textContent = statement === null ? told : `Where statement ${statement + 1} came from`;
  }

  const found = (target) => {
    const span = target.closest?.("[data-statement], [data-sentence]");
    if (!span || !root.contains(span)) return null;
    return span.dataset.statement === undefined ? { sentence: span } : { statement: Number(span.dataset.statement) };
  };
  const same = (a, b) => a?.statement === b?.statement && a?.sentence === b?.sentence;

  /** Bring the strongest sentence of a statement into view, where it is out of it. */
  function reveal({ statement }) {
    if (statement === undefined) return;
    const best = sentences.reduce((a, b) => (sharesOf(b)[statement] > sharesOf(a)[statement] ? b : a), sentences[0]);
    best?.scrollIntoView({ block: "nearest" });
  }

  function keep(what) {
    kept = same(kept, what) ? null : what;
    show(kept);
    if (kept) reveal(kept);
  }

  root.addEventListener("pointerover", (event) => {
    const what = found(event.target);
    if (!kept) show(what);
  });
  root.addEventListener("pointerleave", () => show(kept));
  root.addEventListener("focusin", (event) => !kept && found(event.target) && show(found(event.target)));
  root.addEventListener("focusout", () => show(kept));
  root.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link) {
      event.preventDefault(); // what stands behind the # of a served page is its state
      root.querySelector(link.getAttribute("href"))?.scrollIntoView();
      return;
    }
    const what = found(event.target);
    if (what) keep(what);
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      kept = null;
      show(null);
    }
    const what = event.key === "Enter" || event.key === " " ? found(event.target) : null;
    if (!what) return;
    event.preventDefault();
    keep(what);
  });
  for (const span of sentences) if (Math.max(0, ...sharesOf(span)) >= data.notable) span.tabIndex = 0;
  show(null);
  root.classList.add("w-complete");
  }; // prettier-ignore

  const page = document.getElementById("whence-cited"); // a page of its own
  if (!page) return;
  document.getElementById("whence-actions").append(
    whence.el("button", { type: "button", class: "w-button", text: "Print", on: { click: () => print() } }),
    whence.themeButton(),
  );
  whence.cited(page, JSON.parse(document.getElementById("whence-data").textContent));
})((globalThis.whence ??= {}));
