// The live numbers of one answer, as seen from here, and how numbers are written.

const kWindow = 2000;  // ms that the rate looks back

export class Figures {
  sentAt = performance.now();
  heardAt = this.sentAt;  // any frame of the stream
  #marks = [];  // [time, tokens so far]

  /// `drawn` and `ttft` as far as an earlier page has seen them.
  constructor({ drawn = 0, ttft = 0 } = {}) {
    this.tokens = drawn;
    this.ttft = ttft;  // ms from sending to the first token, or 0
  }

  heard() {
    this.heardAt = performance.now();
  }

  add(tokens) {
    const now = performance.now();
    this.heardAt = now;
    this.tokens += tokens;
    this.ttft ||= now - this.sentAt;
    this.#marks.push([now, this.tokens]);
    while (this.#marks.length > 2 && this.#marks[1][0] < now - kWindow) this.#marks.shift();
  }

  /// Tokens per second over the last moments, or 0 while unknown.
  get rate() {
    if (this.#marks.length < 2) return 0;
    const [time, tokens] = this.#marks[0];
    const passed = Math.max(performance.now(), this.#marks.at(-1)[0]) - time;
    return passed > 50 ? (this.tokens - tokens) * 1000 / passed : 0;
  }
}

export function duration(ms) {
  if (!(ms >= 0)) return '–';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

export const rateText = (rate) => `${rate < 100 ? rate.toFixed(1) : Math.round(rate)} tok/s`;

export const count = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
