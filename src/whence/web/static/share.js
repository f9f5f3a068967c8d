// What is asked, in the fragment of the address: it is never sent to a server, so it stays out of logs.

// a token in the address has become a cookie: nobody should share it with the page
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const LONGEST = 8000; // characters; longer addresses get cut on their way through mail and chat

/** The state that an address stands for; nothing where it has no fragment. */
export function read() {
  const values = new URLSearchParams(location.hash.slice(1));
  if (!values.has("m")) return null;
  return {
    model: values.get("m"),
    text: values.get("x") ?? "",
    image: values.get("i"),
    sound: values.get("s"),
    methods: (values.get("k") ?? "").split(",").filter(Boolean),
    target: values.get("t") ?? "",
    against: values.get("v") ?? "",
    tab: values.get("tab") ?? "explain",
  };
}

/** Put the state into the address. Returns whether all of it fitted. */
export function write(state) {
  const values = new URLSearchParams({ m: state.model });
  if (state.text) values.set("x", state.text);
  if (state.image) values.set("i", state.image);
  if (state.sound) values.set("s", state.sound);
  values.set("k", state.methods.join(","));
  if (state.target) values.set("t", state.target);
  if (state.against) values.set("v", state.against);
  if (state.tab !== "explain") values.set("tab", state.tab);
  const fits = values.toString().length <= LONGEST;
  if (!fits) for (const long of ["x", "i", "s"]) values.delete(long);
  history.replaceState(null, "", `#${values}`);
  return fits;
}
