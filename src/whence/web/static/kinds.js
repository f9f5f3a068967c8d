// Kinds of model, and what a request gives them.

const READS = {
  text: ["text"],
  generation: ["text"],
  image: ["image"],
  sound: ["sound"],
  image_text: ["image", "text"],
};

/** The names of either side of a pair, as a text and as an image. */
export const SIDES = [
  { text: "text", image: "image" },
  { text: "pair", image: "pair_image" },
];

/** Whether either side of a pair may be an image. */
export const sees = (model) => model.kind === "pair" && model.sides.includes("image");

/** Texts to choose from, one per line: each once. */
export const labelsOf = (state) => [...new Set(state.labels.map((label) => label.trim()).filter(Boolean))];

/**
 * A model as it is asked: where it chooses among labels, these are those that were typed. A CLIP compares two inputs, or
 * chooses (`either`).
 */
export function posed(model, state) {
  if (!model.chooses) return model;
  const either = model.kind === "pair";
  if (either && !state.choosing) return { ...model, chooses: null, either };
  return { ...model, ...model.chooses, labels: labelsOf(state), either };
}

/** What a model is given, in the order of the fields; `sides` are what the sides of a pair are. */
export function readsOf(model, sides) {
  if (model.chooses) return [...READS[model.kind], "labels"];
  if (model.kind !== "pair") return READS[model.kind];
  return SIDES.map((names, n) => names[(sees(model) && sides?.[n]) || "text"]);
}

/** Whether a model can be given a text, an image or a sound. */
export const takes = (model, sort) =>
  model.kind === "pair" ? model.sides.includes(sort) : READS[model.kind].includes(sort);

/** What the sides of an example of a pair are; nothing where a model sees none. */
export function sidesOf(model, example) {
  return sees(model) ? SIDES.map(({ image }) => (example?.[image] ? "image" : "text")) : null;
}

/** What is said where it is missing. */
export const MISSING = {
  text: { message: "There is no text yet.", hint: "Type a sentence, or choose an example." },
  pair: { message: "There is no second text yet.", hint: "Type what the first is compared with." },
  image: { message: "There is no image yet.", hint: "Drop one on the page, paste it, or choose an example." },
  pair_image: { message: "There is no second image yet.", hint: "Drop one on the page, or open a file." },
  sound: { message: "There is no sound yet.", hint: "Drop a file on the page, or choose an example." },
  labels: { message: "There are no labels yet.", hint: "Type what to choose from, one per line." },
};
