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
    pair: values.get("y") ?? "",
    cut: values.has("cut"), // the input did not fit: nobody else's may stand in its place
    image: values.get("i"),
    sound: values.get("s"),
    methods: (values.get("k") ?? "").split(",").filter(Boolean),
    target: values.get("t") ?? "",
    against: values.get("v") ?? "",
    tab: values.get("tab") ?? "explain",
    row: values.get("row"),
  };
}

/** The address of a state, and whether all of it fitted. */
export function address(state) {
  const values = new URLSearchParams({ m: state.model });
  if (state.text) values.set("x", state.text);
  if (state.pair) values.set("y", state.pair);
  if (state.image) values.set("i", state.image);
  if (state.sound) values.set("s", state.sound);
  values.set("k", state.methods.join(","));
  if (state.target) values.set("t", state.target);
  if (state.against) values.set("v", state.against);
  if (state.tab !== "explain") values.set("tab", state.tab);
  if (state.tab === "runs" && state.row) values.set("row", state.row);
  const fits = values.toString().length <= LONGEST;
  if (!fits) {
    for (const long of ["x", "y", "i", "s"]) values.delete(long);
    values.set("cut", "1");
  }
  return { address: `${location.origin}${location.pathname}#${values}`, fits };
}

/** Put the state into the address of the page. */
export function write(state) {
  history.replaceState(null, "", address(state).address);
}
