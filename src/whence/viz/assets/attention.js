// The page of attention maps: layers lie in the page compressed and are unpacked one by one.
"use strict";
(function (whence) {
  const data = JSON.parse(document.getElementById("whence-data").textContent);

  async function unpacked(text) {
    const stream = new Blob([whence.bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const layers = data.shapes.map(([count], layer) => ({ heads: count, stream: data.streams[layer] ?? "self" }));
  const numbered = (count) => Array.from({ length: count }, (_, i) => String(i));
  const axes = data.shapes.map(([, queries, keys], layer) => {
    const stream = layers[layer].stream;
    const asking = stream === "decoder" || stream === "cross" ? data.decoder_tokens : data.tokens;
    const seen = stream === "decoder" ? data.decoder_tokens : data.tokens;
    return [asking.length === queries ? asking : numbered(queries), seen.length === keys ? seen : numbered(keys)];
  });
  document.getElementById("whence-actions").append(whence.themeButton());
  const root = document.getElementById("whence-heads");
  whence.heads(root, {
    layers,
    load: async (layer) => {
      const packed = document.getElementById(`whence-layer-${layer}`).textContent;
      return { maps: await unpacked(packed), maxima: data.maxima[layer], axes: axes[layer] };
    },
    ranks: data.ranks,
    eager: true,
  });
  root.append(
    whence.el(
      "section",
      { class: "w-card" },
      whence.el("h2", { text: "Stamp" }),
      whence.stamp({ method: "attention", stamp: data.stamp, options: {} }),
    ),
  );
})(globalThis.whence);
