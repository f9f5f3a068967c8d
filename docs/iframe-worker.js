// Search on pages that are opened from a disk. Browsers start no Worker there; this stands in for it, with the worker's
// script in a hidden frame. The builder would load one from another host, unless a file of this name is there already.
if (location.protocol === "file:") {
  globalThis.Worker = class {
    #frame = document.createElement("iframe");
    #waiting = []; // what was sent before the script was there
    onmessage = null;

    constructor(url) {
      const script = document.createElement("script");
      script.src = new URL(url, location.href);
      this.#frame.hidden = true;
      this.#frame.srcdoc = `<!doctype html>${script.outerHTML}`;
      this.#frame.addEventListener("load", () => {
        this.#frame.contentWindow.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
        for (const data of this.#waiting.splice(0)) this.#hand(data);
        this.#waiting = null;
      });
      document.body.append(this.#frame);
    }

    #hand(data) {
      setTimeout(() => this.#frame.contentWindow?.onmessage?.({ data }));
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#hand(data);
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
