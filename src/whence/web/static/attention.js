// The attention tab: layers come from the server one by one.
import { cancel, post } from "/static/api.js";
import { busy, problem, quiet } from "/static/status.js";

const { bytes, el, heads } = globalThis.whence;
const EAGER = 6; // layers that are all fetched at once; each costs a pass of the model

export async function attention(view, input) {
  const load = async (layer) => {
    const answer = await post(`attention/${layer}`, "/api/attention", { ...input, layer });
    return { ...answer, maps: bytes(answer.maps), axes: [answer.query_tokens, answer.key_tokens] };
  };
  busy("Reading attention", () => cancel("attention"));
  const first = await load(0);
  quiet();
  const root = el("div", { class: "w-board", id: "heads" });
  view.replaceChildren(root);
  const layers = Array.from({ length: first.layers }, (_, layer) => ({
    heads: first.heads,
    stream: first.streams[layer],
  }));
  heads(root, {
    layers,
    load: (layer) => (layer === 0 ? Promise.resolve(first) : load(layer)),
    image: input.image,
    eager: first.layers <= EAGER,
    failed: (error) => error.name === "AbortError" || problem(error),
  });
}
