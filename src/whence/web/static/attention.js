// The attention tab: as many layers as fit come with each answer, until all are there.
import { cancel, post } from "/static/api.js";
import { busy, problem, quiet } from "/static/status.js";

const { bytes, choice, el, heads } = globalThis.whence;
const ALL = 1000;

/** Draw the attention of `input` into `view`; `pair`: {at, look(n)} where it is one side of a pair. */
export async function attention(view, input, pair = null) {
  const held = new Map(); // layer: a promise of its maps
  const unpacked = (layer) => ({ ...layer, maps: bytes(layer.maps), axes: [layer.query_tokens, layer.key_tokens] });
  const ask = async (layer, ranks) => {
    const answer = await post(`attention/${layer}`, "/api/attention", { ...input, layer, layers: ALL, ranks });
    for (const other of answer.others) held.set(other.layer, Promise.resolve(unpacked(other)));
    return answer;
  };
  const load = (layer) => {
    if (!held.has(layer)) held.set(layer, ask(layer, false).then(unpacked));
    held.get(layer).catch(() => held.delete(layer)); // the next click tries again
    return held.get(layer);
  };
  busy("Reading attention", () => cancel("attention"));
  const first = await ask(0, true);
  held.set(0, Promise.resolve(unpacked(first)));
  quiet();
  const root = el("div", { class: "w-board", id: "heads" });
  const sides = pair && choice("Which input", [[0, "First"], [1, "Second"]], pair.at, pair.look);
  const said = el("section", { class: "w-card" }, el("div", {}, el("h2", { class: "w-verdict", dir: "auto", text: first.verdict })));
  view.replaceChildren(...(sides ? [el("div", {}, sides)] : []), said, root);
  heads(root, {
    // layers differ in their heads only where an encoder meets a decoder; ranks know all of them
    layers: Array.from({ length: first.layers }, (_, layer) => ({
      heads: first.ranks.entropy[layer].length,
      stream: first.streams[layer],
    })),
    load,
    ranks: first.ranks,
    image: input.image,
    eager: true,
    failed: (error) => error.name === "AbortError" || problem(error),
  });
}
