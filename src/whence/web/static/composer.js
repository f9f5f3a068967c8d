// The form: model, what is explained, methods, target.
import { fields } from "/static/inputs.js";
import { writingFields } from "/static/writing.js";

const { el } = globalThis.whence;
/** Kinds of model that take the same inputs: what was typed for one is kept for the other. */
const family = (kind) => (kind === "generation" ? "text" : kind);

/**
 * Draw the form into `root`. `state` is read and changed; `act.explain()` when something is to be explained,
 * `act.typed()` while somebody types, `act.taken()` when another input was taken, `act.file(file)` when a file is opened,
 * `act.play(seconds)` while a sound is played.
 */
export function composer(root, info, state, act) {
  const model = () => info.models.find((m) => m.name === state.model);
  const fits = (method) => model().methods.includes(method.name);
  const drafts = {}; // by family of models: what was last asked of them
  let go;

  function draw() {
    const kind = model().kind;
    root.replaceChildren(
      ...(info.models.length > 1 ? [modelField()] : []),
      ...fields(model(), info, state, { ...act, take }).filter(Boolean),
      ...(state.tab === "explain" && kind !== "pair" ? [methodField(), targetField(kind)] : []),
      ...(state.tab === "write" ? writingFields(info) : []),
      buttons(),
    );
  }

  function modelField() {
    const select = el(
      "select",
      { id: "model" },
      info.models.map((m) => el("option", { value: m.name, text: `${m.name} · ${m.task}` })),
    );
    select.value = state.model;
    select.addEventListener("change", () => use(select.value));
    return el("div", { class: "field" }, el("label", { for: "model", text: "Model" }), select);
  }

  function methodField() {
    const usual = new Set([...info.default_methods, ...state.methods]);
    const chip = (method) => {
      const input = el("input", { type: "checkbox", value: method.name, name: "method" });
      input.checked = state.methods.includes(method.name);
      input.disabled = !input.checked && state.methods.length >= info.limits.methods;
      input.addEventListener("change", () => {
        const others = state.methods.filter((name) => name !== method.name);
        state.methods = input.checked ? [...others, method.name] : others;
        draw();
        root.querySelector(`input[value="${method.name}"]`)?.focus();
        if (state.methods.length) act.explain();
      });
      return el(
        "label",
        { class: method.slow ? "slow" : "", title: method.says + (method.slow ? " Takes longer." : "") },
        input,
        el("span", {}, method.title, " ", el("code", { text: method.name })),
      );
    };
    const known = info.methods.filter(fits);
    const open = root.querySelector("details.more")?.open;
    const rest = known.filter((m) => !usual.has(m.name));
    const others = info.methods.length - known.length;
    const why = "They read attention over all tokens, which this model does not have.";
    const more = el(
      "details",
      { class: "more" },
      el("summary", { text: `${rest.length} more methods` }),
      el("div", { class: "chips" }, rest.map(chip)),
    );
    more.open = Boolean(open);
    return el(
      "fieldset",
      { class: "field" },
      el("legend", { text: "Methods" }),
      el(
        "div",
        { class: "chips" },
        [...usual]
          .map((name) => known.find((m) => m.name === name))
          .filter(Boolean)
          .map(chip),
      ),
      rest.length ? more : null,
      others ? el("p", { class: "w-quiet", title: why, text: `${others} methods that read attention do not fit here` }) : null,
    );
  }

  let placed = null; // the fields of the target

  function targetField(kind) {
    placed = el("div", { class: "two" }, targetFields(kind));
    return placed;
  }

  /** Draw what is explained again, and nothing else: somebody may be typing. */
  const targets = () => placed?.replaceChildren(...targetFields(model().kind));

  function targetFields(kind) {
    const change = (key, value, run) => {
      Object.assign(state, { [key]: value, clicked: false });
      if (run) act.explain();
    };
    if (kind === "generation" || (kind === "image_text" && !model().labels.length)) {
      const input = (key, label, hint) => {
        const box = el("input", { type: "text", id: key, placeholder: hint });
        box.value = state[key];
        box.addEventListener("input", () => change(key, box.value, false));
        return el("div", { class: "field" }, el("label", { for: key, text: label }), box);
      };
      return [
        input("target", "Token to explain", "the likeliest"),
        input("against", "rather than", "the next likeliest"),
      ];
    }
    const select = (key, label, first) => {
      const box = el(
        "select",
        { id: key },
        el("option", { value: "", text: first }),
        model()
          .labels.slice(0, 1000)
          .map((l) => el("option", { value: l, text: l })),
      );
      box.value = state[key];
      box.addEventListener("change", () => change(key, box.value, true));
      return el("div", { class: "field" }, el("label", { for: key, text: label }), box);
    };
    return [select("target", "Explain", "the prediction"), select("against", "rather than", "–")];
  }

  function buttons() {
    go = el(
      "button",
      { type: "submit", class: "primary" },
      { attention: "Look", write: "Write" }[state.tab] ?? (model().kind === "pair" ? "Compare" : "Explain"),
      el("kbd", { text: "Ctrl ↵" }),
    );
    const live = globalThis.whence.toggle("As I type", state.live, (on) => (state.live = on));
    live.title = "Quick methods are asked while you type";
    return el("div", { class: "go" }, go, state.tab === "explain" && model().kind !== "pair" ? live : null);
  }

  /** Change to another model: what was asked of its kind before is there again, or its first example, or `given`. */
  function use(name, given = null) {
    const { text, pair, image, sound, methods } = state;
    drafts[family(model().kind)] = { text, pair, image, sound, methods };
    const before = family(model().kind);
    Object.assign(state, { model: name, target: "", against: "" });
    const kind = family(model().kind);
    if (kind !== before) Object.assign(state, { text: "", pair: "", image: null, sound: null }, drafts[kind] ?? model().examples[0]);
    Object.assign(state, given ?? {});
    state.methods = state.methods.filter((n) => fits(info.methods.find((m) => m.name === n)));
    if (!state.methods.length) state.methods = info.default_methods.filter((n) => model().methods.includes(n));
    draw();
    return act.taken();
  }

  /** Take an example: a text as it is, an image or a sound from its address on this server. */
  function take(example) {
    Object.assign(state, example);
    draw();
    act.taken();
  }

  root.addEventListener("submit", (event) => {
    event.preventDefault();
    act.explain();
  });
  draw();
  return { draw, targets, use };
}
