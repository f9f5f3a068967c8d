// The numbers of a trace: rows, sums of rows, what a column gave to each row, and rows followed through the model's text.
"use strict";
(function (whence) {
  const UNKNOWN = -32768; // a score that is not finite
  const LITTLE = 0.01; // share of what is explained that may stay at the model's own text; as in results/hops.py
  const MOST = 1; // the most that a written token is multiplied by

  /** `data`: see viz/trace_page.py. Everything that is returned has plain numbers; a row is counted from 0. */
  function rows(data) {
    const count = data.steps.length;
    const width = data.tokens.length;
    const raw = new Int16Array(whence.bytes(data.scores).buffer);
    const own = data.target_scores;
    const scored = own.length === count && own.every(whence.known);
    const columns = data.places.flatMap(([a, b]) => Array.from({ length: b - a }, (_, k) => a + k));
    const follows = scored && new Set(columns).size === columns.length; // else nobody knows what each row passes on

    const at = (row, column) => {
      const step = raw[row * width + column];
      return step === UNKNOWN ? NaN : step * data.steps[row];
    };

    /** Rows, each times its weight, as scores of the columns. */
    function weighted(weights) {
      const sum = new Float64Array(width);
      for (let row = 0; row < count; row++) {
        if (!weights[row]) continue;
        const [begin, size] = [row * width, weights[row] * data.steps[row]];
        for (let k = 0; k < width; k++) {
          const step = raw[begin + k];
          if (step) sum[k] += step === UNKNOWN ? NaN : step * size;
        }
      }
      return sum;
    }

    const total = (weights, values) => weights.reduce((sum, weight, row) => sum + (weight ? weight * values[row] : 0), 0);

    /** The receipt of the same sum; what was `passed` on is counted where it ended. */
    function receipt(weights, passed, target) {
      if (data.receipts.length !== count) return null;
      const sinks = {};
      const unruled = new Set();
      let complete = true;
      weights.forEach((weight, row) => {
        if (!weight) return;
        const one = data.receipts[row];
        for (const [kind, amount] of Object.entries(one.sinks)) sinks[kind] = (sinks[kind] ?? 0) + weight * amount;
        one.unruled.forEach((name) => unruled.add(name));
        complete &&= one.complete;
      });
      const inputs = total(weights, data.receipts.map((one) => one.inputs)) - passed; // prettier-ignore
      const booked = Object.entries(sinks).reduce((sum, [kind, v]) => sum + (kind === "unruled" ? 0 : v), inputs);
      return { inputs, target, sinks, unruled: [...unruled].sort(), complete, error: target - booked };
    }

    /** What lies at written tokens is passed on to where they came from, until little is left: `results.hops`. */
    function followed(weights, scores, target) {
      const all = Float64Array.from(scores);
      const used = Float64Array.from(weights);
      let arrived = scores;
      let passed = 0;
      for (let hop = 0; hop < columns.length; hop++) {
        const held = data.places.map(([a, b]) => arrived.subarray(a, b).reduce((sum, s) => sum + s, 0));
        const factors = held.map((amount, row) => (own[row] ? Math.max(-MOST, Math.min(MOST, amount / own[row])) : 0));
        const given = factors.map((factor, row) => factor * own[row]);
        const moved = given.reduce((sum, amount) => sum + Math.abs(amount), 0);
        if (!(moved > LITTLE * Math.max(Math.abs(target), 1e-12))) break;
        given.forEach((part, row) => {
          const [a, b] = data.places[row];
          if (part) for (let k = a; k < b; k++) all[k] -= arrived[k] * (part / held[row]);
          used[row] += factors[row];
          passed += part;
        });
        arrived = weighted(factors);
        arrived.forEach((score, k) => (all[k] += score));
      }
      return { scores: all, used: Array.from(used), passed };
    }

    /** Rows `from` to `to`, both included, as one: {scores, score, receipt}. */
    function span(from, to, follow = false) {
      const weights = Array.from({ length: count }, (_, row) => (row >= from && row <= to ? 1 : 0));
      const scores = weighted(weights);
      const score = scored ? total(weights, own) : null;
      if (!follow || !follows) return { scores, score, receipt: receipt(weights, 0, score ?? NaN) };
      const found = followed(weights, scores, score);
      return { scores: found.scores, score, receipt: receipt(found.used, found.passed, score) };
    }

    /** How much columns `start` to `stop` gave to each row. */
    function served(start, stop) {
      return Float64Array.from({ length: count }, (_, row) => {
        let sum = 0;
        for (let k = start; k < stop; k++) sum += at(row, k);
        return sum;
      });
    }

    return { count, width, scored, follows, span, served };
  }

  Object.assign(whence, { rows });
})((globalThis.whence ??= {}));
