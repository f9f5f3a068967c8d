// Kinds of model, and what a request gives them.

/** In the order of the fields. */
export const READS = {
  text: ["text"],
  generation: ["text"],
  image: ["image"],
  sound: ["sound"],
  image_text: ["image", "text"],
  pair: ["text", "pair"],
};

/** What is said where it is missing. */
export const MISSING = {
  text: { message: "There is no text yet.", hint: "Type a sentence, or choose an example." },
  pair: { message: "There is no second text yet.", hint: "Type what the first is compared with." },
  image: { message: "There is no image yet.", hint: "Drop one on the page, paste it, or choose an example." },
  sound: { message: "There is no sound yet.", hint: "Drop a file on the page, or choose an example." },
};
