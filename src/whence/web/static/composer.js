// The form: model, what is explained, methods, target.
import { fields } from "/static/inputs.js";
import { labelsOf, posed, readsOf, sees, sidesOf } from "/static/kinds.js";
import { writingFields } from "/static/writing.js";

const { el } = globalThis.whence;
/** Kinds of model that take the same inputs: what was typed for one is kept for the other. */
function family(model) {
  if (model.chooses && model.kind !== "pair") return `labels for ${model.kind}`;
  return model.kind === "generation" ? "text" : sees(model) ? "image_pair" : model.kind;
}
const MEASURES = { cosine: "cosine", dot: "dot product", maxsim: "late interaction (maxsim)" };

/**
 * The form in `root`, once it is drawn. `state` is read and changed; `act.explain()` when something is to be explained,
 * `act.typed()` while somebody types, `act.taken()` when another input was taken, `act.file(file, side)` when a file is opened,
 * `act.play(seconds)` while a sound is played.
 */
export function composer(root, info, state, act) {
  const served = () => info.models.find((m) => m.name === state.model);
  const model = () => posed(served(), state);
  const fits = (method) => model().methods.includes(method.name);
  const drafts = {}; // by family of models: what was last asked of them
  let go;

  /** What has the focus has it again in the form that is drawn anew. */
  function held() {
    const active = document.activeElement;
    if (!root.contains(active)) return () => {};
    const at = [...root.querySelectorAll(".examples button")].indexOf(active);
    return () => {
      const examples = root.querySelectorAll(".examples button");
      const again = active.id ? document.getElementById(active.id) : at >= 0 ? (examples[at] ?? examples[0]) : null;
      (again ?? (active.isConnected ? null : root.querySelector(".primary")))?.focus();
    };
  }

  function draw() {
    const kind = model().kind;
    const focus = held();
    root.replaceChildren(
      ...(info.models.length > 1 ? [modelField()] : []),
      ...(model().either ? [eitherField()] : []),
      ...fields(model(), info, state, { ...act, take, turn, labelled }).filter(Boolean),
      ...(state.tab === "explain" && kind === "pair" ? [measureField(), oneMethodField()] : []),
      ...(state.tab === "explain" && kind !== "pair" ? [methodField(), targetField(kind)] : []),
      ...(state.tab === "write" ? [oneMethodField(), ...writingFields(info, state, act.typed)] : []),
      buttons(),
    );
    focus();
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

  /** What a model is asked that can do both. */
  function eitherField() {
    const ways = [["compare", "Compare two"], ["choose", "Choose a label"]];
    const chosen = state.choosing ? "choose" : "compare";
    return el("div", { class: "field", id: "either" }, globalThis.whence.choice("What to ask", ways, chosen, (way) => pose(way === "choose")));
  }

  /** Ask the same model the other way: what is there stays, and what is missing is of its first example. */
  function pose(choosing) {
    Object.assign(state, { choosing, target: "", against: "", clicked: false });
    const [first] = model().examples;
    if (!choosing) state.sides ??= sidesOf(served(), first);
    if (choosing && !state.image) state.image = state.pair_image;
    for (const name of readsOf(model(), state.sides)) if (!state[name]?.length) state[name] = first[name] ?? state[name];
    fitMethods();
    draw();
    root.querySelector("#either input:checked")?.focus();
    act.taken();
  }

  /** Some methods do not fit every model, nor everything that it is asked. */
  function fitMethods() {
    state.methods = state.methods.filter((n) => fits(info.methods.find((m) => m.name === n)));
    if (!state.methods.length) state.methods = info.default_methods.filter((n) => model().methods.includes(n));
  }

  /** Labels were typed: they are what can be explained. */
  function labelled() {
    const labels = labelsOf(state);
    for (const key of ["target", "against"]) if (state[key] && !labels.includes(state[key])) state[key] = "";
    targets();
    act.typed();
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

  /** Where one method is asked for at a time. Those that were chosen elsewhere stay chosen. */
  function oneMethodField() {
    const known = info.methods.filter(fits);
    const box = el("select", { id: "method" }, known.map((m) => el("option", { value: m.name, title: m.says, text: `${m.title} (${m.name})` })));
    box.value = state.methods[0];
    box.addEventListener("change", () => {
      state.methods = [box.value, ...state.methods.filter((name) => name !== box.value)].slice(0, info.limits.methods);
      if (state.tab === "write") act.typed(); // to write takes long: whoever wants it presses the button
      else act.explain();
    });
    return el("div", { class: "field" }, el("label", { for: "method", text: "Method" }), box);
  }

  /** How two embeddings are compared. */
  function measureField() {
    const [own, ...others] = model().measures;
    const box = el("select", { id: "measure" }, [own, ...others].map((name) => el("option", { value: name, text: MEASURES[name] })));
    box.value = state.measure || own;
    box.addEventListener("change", () => {
      state.measure = box.value === own ? "" : box.value;
      act.explain();
    });
    return el("div", { class: "field" }, el("label", { for: "measure", text: "Compared by" }), box);
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
    const { text, pair, image, pair_image, sound, labels, choosing, methods, sides, measure } = state;
    const before = family(served());
    drafts[before] = { text, pair, image, pair_image, sound, labels, choosing, methods, sides, measure };
    Object.assign(state, { model: name, target: "", against: "" });
    const [kind, first] = [family(served()), served().examples[0]];
    const nothing = { text: "", pair: "", image: null, pair_image: null, sound: null, labels: [], choosing: false, measure: "", sides: sidesOf(served(), first) };
    if (kind !== before) Object.assign(state, nothing, drafts[kind] ?? first);
    Object.assign(state, given ?? {});
    if (!model().measures.includes(state.measure)) state.measure = "";
    fitMethods();
    draw();
    return act.taken();
  }

  /** Take an example: a text as it is, an image or a sound from its address on this server. */
  function take(example) {
    Object.assign(state, example, sees(model()) ? { sides: sidesOf(model(), example) } : {});
    draw();
    act.taken();
  }

  /** Make one side of a pair a text or an image; nothing is asked until it is there. */
  function turn(side, sort) {
    state.sides = state.sides.map((was, n) => (n === side ? sort : was));
    draw();
    root.querySelector(`[data-side="${side}"] input[value="${sort}"]`)?.focus();
    act.typed();
  }

  root.addEventListener("submit", (event) => {
    event.preventDefault();
    act.explain();
  });
  return { draw, targets, use };
}
