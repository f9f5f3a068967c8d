// The explain view: methods come in one by one, then how faithful each is; what is shown and what is asked for next.
import { cancel, stopped, stream } from "/static/api.js";
import { check } from "/static/check.js";
import { downloads, figureButton } from "/static/downloads.js";
import { agreement, chip, gloss } from "/static/faith.js";
import { python } from "/static/python.js";
import * as share from "/static/share.js";
import { arrived, busy, note, problem, quiet } from "/static/status.js";
import { duration, unpressed } from "/static/timing.js";

const whence = globalThis.whence;
const { el } = whence;
const PATIENCE = 2.5; // seconds that quick methods may take to be asked for while somebody types

/**
 * `page`: {view, info, state, input(), form()}. Returns {explain, show, edited, play}; `explain({live})` while somebody
 * types asks quick methods alone.
 */
export function explaining(page) {
  const { view, info, state } = page;
  const memory = { view: "words" }; // how the board is looked at; kept from answer to answer
  const methods = Object.fromEntries(info.methods.map((m) => [m.name, m]));
  let answer = null;
  let shown = null; // the board
  let checking = null; // the card in which words are struck out

  function asked() {
    if (state.against && state.target) return [{ this: state.target, that: state.against }];
    return state.target ? [state.target] : null;
  }

  const quick = () => state.methods.filter((name) => !methods[name].slow);

  /** Whether the last answer came quickly enough to ask while somebody types. */
  const isLive = () => state.live && state.tab === "explain" && quick().length > 0 && (answer?.seconds ?? 0) < PATIENCE;

  let latest = 0; // number of the last question: answers to those before it say nothing of how it went
  const settled = ({ turn }) => turn === latest && quiet();

  async function explain({ live = false } = {}) {
    const turn = ++latest;
    share.write(state);
    if (!state.methods.length)
      return problem({ message: "No method is chosen.", hint: "Choose at least one under Methods." });
    const chosen = live ? quick() : state.methods;
    let next = null;
    try {
      if (!live) busy("Explaining", () => cancel("explain"));
      const request = { ...(await page.input()), methods: chosen, targets: asked() };
      next = { model: state.model, request, asked: { ...state }, explanations: [], failed: [], faith: {}, seconds: null, turn };
      next.waiting = state.methods.map((method) => ({ method, text: chosen.includes(method) ? "…" : "takes longer: press Explain" }));
      await stream("explain", "/api/stream", { ...request, faithfulness: true }, (event) => hear(next, event, live));
    } catch (error) {
      if (stopped(error)) return next === answer || live ? null : quiet();
      if (live && error.status === undefined && error.hint) return quiet(); // an empty text is no mistake while typing
      if (next && next === answer) answer.waiting = [];
      problem(error, () => explain());
    }
    return null;
  }

  function hear(next, event, live) {
    if (event.event === "explained") {
      const first = !next.explanations.length;
      next.explanations.push(...event.explanations);
      next.waiting = next.waiting.filter(({ method }) => method !== event.method);
      if (first) begun(next, live);
      draw();
    } else if (event.event === "failed") {
      next.failed.push({ method: event.method, message: event.message });
      next.waiting = next.waiting.filter(({ method }) => method !== event.method);
      if (next === answer) draw();
    } else if (event.event === "progress") {
      const row = view.querySelector(`[data-waiting="${event.method}"] p`);
      if (row) row.textContent = progress(event);
    } else if (event.event === "all_explained") {
      next.seconds = event.seconds;
      settled(next);
      topline();
      whence.say(`Done: ${next.explanations.length} explanations of ${memory.target}`);
    } else judged(next, event);
  }

  function begun(next, live) {
    if (answer && JSON.stringify(inputOf(answer.request)) !== JSON.stringify(inputOf(next.request))) checking = null;
    answer = next;
    answer.prediction = next.explanations[0].prediction;
    memory.target = next.explanations[0].target;
    checking ??= check(inputOf(next.request), methods);
    settled(next);
    if (live) document.body.dataset.asked = "yes";
    else arrived();
  }

  function progress({ done, total, left }) {
    const time = left < 1 ? "" : left < 90 ? `, about ${Math.round(left)} s left` : `, about ${Math.round(left / 60)} min left`;
    return `${done.toLocaleString("en")} of ${total.toLocaleString("en")} steps${time}`;
  }

  const key = (target, method) => `${target}\n${method}`;

  function judged(next, event) {
    if (event.event === "judged") {
      next.faith[key(event.target, event.method)] = event;
      view.querySelector(`[data-faith="${event.method}"]`)?.replaceWith(chip(event.method, event));
    } else if (event.event === "agreement") {
      next.agreement = event;
      if (next === answer) draw();
    } else if (event.event === "not_judged") {
      next.unjudged = event.message;
      if (next === answer) draw();
    }
  }

  function halt() {
    cancel("explain");
    Object.assign(answer, { waiting: [], stopped: true, unjudged: "it was stopped." });
    draw();
    whence.say("Stopped");
  }

  /** Explain another class of the same input and keep what is there: changing back costs nothing. */
  async function another(label) {
    const before = answer;
    busy(`Explaining ${label}`, () => cancel("explain"));
    try {
      const request = { ...before.request, methods: [...new Set(before.explanations.map((exp) => exp.method))], targets: [label] };
      await stream("explain", "/api/stream", { ...request, faithfulness: true }, (event) => {
        if (answer !== before) return;
        if (event.event === "explained") before.explanations.push(...event.explanations);
        else if (event.event === "all_explained") {
          memory.target = before.explanations.at(-1)?.target ?? memory.target;
          remember(label);
          quiet();
          draw();
          document.querySelector(`.w-class[data-label="${CSS.escape(label)}"]`)?.focus();
          whence.say(`Explaining ${label}`);
        } else judged(before, event);
      });
    } catch (error) {
      if (stopped(error)) return quiet();
      problem(error, () => another(label));
    }
    return null;
  }

  /** A class that was clicked is asked for as long as the input stays the same. */
  function remember(label) {
    Object.assign(state, { target: label, against: "", clicked: true });
    Object.assign(answer.asked, { target: label, against: "" });
    share.write(state);
    page.form().draw();
  }

  const areaOf = (exp) => answer.faith[key(exp.target, exp.method)]?.area;

  function board() {
    const own = answer.explanations.filter((exp) => exp.target === memory.target);
    const complete = own.length > 1 && own.every((exp) => areaOf(exp) !== undefined);
    const best = complete ? Math.max(...own.map(areaOf)) : null;
    const pending = !answer.unjudged && (answer.seconds === null || !answer.agreement);
    return {
      memory,
      methods,
      explain: another,
      changed: (label) => {
        remember(label);
        draw(); // its methods have an order of their own
      },
      order: complete ? (a, b) => areaOf(b) - areaOf(a) : null,
      beside: (exp) => {
        const faith = answer.faith[key(exp.target, exp.method)];
        if (!faith && !(pending && exp.target === answer.explanations[0].target)) return null;
        return chip(exp.method, faith, complete && own.length > 1 && faith?.area === best && best > 0);
      },
      between: [...(answer.unjudged ? [] : [gloss()]), checking.root],
      looked: (one, others) => checking.look(one, others, wanted().targets?.[0] ?? null),
    };
  }

  const made = el("p", { class: "w-quiet" });
  /** Methods that are still under way can be stopped; those that are there stay. */
  const stop = el("button", { type: "button", class: "w-button", text: "Cancel", on: { click: halt } });
  const actions = el("div", { class: "w-bar" }, shareButton(), pythonButton(), figureButton(wanted), downloads(wanted));
  const head = el("div", { class: "topline" }, made, actions); // stays while methods come in: its menu may be open

  function topline() {
    const { seconds, model, stopped: ended } = answer;
    const focus = stop.matches(":focus");
    made.replaceChildren(`${model} · ${seconds !== null ? duration(seconds) : ended ? "stopped" : "explaining …"}`);
    if (seconds === null && !ended) made.append(" ", stop);
    if (focus) stop.focus();
  }

  const draw = unpressed(view, () => {
    if (!answer) return;
    const held = focused() ?? (document.activeElement === document.body ? lost : null);
    const open = whence.readAbout(view);
    const root = el("div", { class: "w-board" });
    topline();
    if (head.isConnected) view.replaceChild(root, head.nextSibling);
    else view.replaceChildren(head, root);
    shown = whence.board(root, answer, board());
    if (answer.agreement && answer.agreement.methods.length > 1) root.append(agreement(answer.agreement, methods));
    if (answer.unjudged) root.append(el("p", { class: "w-quiet", text: `Not judged: ${answer.unjudged}` }));
    whence.readOn(root, open);
    lost = held && !held() ? held : null;
  });

  /** What has the focus is found again in what is drawn anew, or in what is drawn next: methods come one by one. */
  let lost = null;
  function focused() {
    const active = document.activeElement;
    if (!view.contains(active)) return null;
    const parts = (row) => [...(row?.querySelectorAll("button, canvas, [tabindex='0']") ?? [])];
    const row = active.closest(".w-row[data-method]");
    const at = parts(row).indexOf(active);
    const tokens = (row) => [...(row?.querySelectorAll(".w-t") ?? [])];
    const token = tokens(row).indexOf(active); // when they are new, the first of them alone can have the focus
    const label = active.dataset?.label;
    const struck = active.dataset?.n;
    return () => {
      const again = row && view.querySelector(`.w-row[data-method="${row.dataset.method}"]`);
      const found =
        token >= 0 ? tokens(again).slice(0, token + 1).at(-1)
        : at >= 0 ? parts(again)[at]
        : label ? view.querySelector(`.w-class[data-label="${CSS.escape(label)}"]`)
        : struck ? view.querySelector(`.strike[data-n="${struck}"]`)
        : null;
      if (found && token >= 0) found.tabIndex = 0;
      found?.focus();
      return Boolean(found);
    };
  }

  const inputOf = ({ methods: _, targets: __, ...given }) => given;

  /** The address of what is shown, not of what is being typed. */
  function shareButton() {
    return whence.copyButton("Copy link", () => {
      const { address, fits } = share.address({ ...answer.asked, methods: state.methods });
      if (!fits) whence.say("The input is too long for an address: the link holds the settings alone.");
      return address;
    });
  }

  function pythonButton() {
    return whence.copyButton("Copy Python", () => python(answer.request, wanted(), info.models.find((m) => m.name === answer.model)));
  }

  /** What is shown, as a request. npz holds one explanation: that of the method that is looked at. */
  function wanted(format) {
    const own = [...new Set(answer.explanations.map((exp) => exp.method))];
    const chosen = format === "npz" ? [memory.method ?? own[0]] : own;
    // a target that is no class (a contrast, a token) goes the way it was asked for
    const targets = answer.prediction.labels.includes(memory.target) ? [memory.target] : answer.request.targets;
    return { ...answer.request, methods: chosen, targets };
  }

  return {
    explain,
    isLive,
    show: () => (answer && share.question(answer.asked) === share.question(state) ? draw() : explain()),
    forget: () => ((answer = checking = shown = null), (memory.now = null)),
    /** The input is another than the one that is explained. */
    edited() {
      memory.now = null; // what was played was something else
      if (answer) note("The input has changed: this is the answer to the one before.");
    },
    play(seconds) {
      shown?.play(seconds);
      checking?.play(seconds);
    },
  };
}
