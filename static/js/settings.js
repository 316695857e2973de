// What the user has set. null means: as the server does by default (see `hello`).

import { browser, load, save } from './storage.js';

/// {key, label, hint, min, max, step, long}.
export const kNumbers = [
  {
    key: 'temperature', label: 'Temperature', min: 0, max: 10, step: 0.01,
    hint: 'Low is steady, high is daring; 0 always takes the likeliest token.',
  },
  {
    key: 'top_p', label: 'Top-p', min: 0.01, max: 1, step: 0.01,
    hint: 'Draw from the smallest set of tokens with this much probability; 1 is off.',
  },
  {
    key: 'top_k', label: 'Top-k', min: 0, max: 1000000, step: 1,
    hint: 'Draw from the k likeliest tokens; 0 is off.',
  },
  {
    key: 'min_p', label: 'Min-p', min: 0, max: 1, step: 0.01,
    hint: 'Leave out tokens less likely than this share of the best one; 0 is off.',
  },
  {
    key: 'max_tokens', label: 'Longest answer', min: 1, max: 1000000, step: 1,
    hint: 'In tokens. Comes before every other rule.',
  },
  {
    key: 'seed', label: 'Seed', min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, long: true,
    hint: 'The same seed, settings and conversation give the same answer. Empty: a new one each time.',
  },
];

/// What is in force for a field that is left empty.
export const standardOf = (key, hello) => (key === 'seed' ? 'random' : hello.sampling?.[key] ?? hello[`${key}_default`] ?? '');

const kMaxStops = 64;
const kMaxStopBytes = 1024;

export class Settings {
  system = '';
  stop = '';           // as typed, one string a line
  makeRoom = false;    // forget the oldest turns without asking

  constructor() {
    const stored = load(browser, 'settings', {});
    for (const { key, min, max } of kNumbers) {
      const value = stored[key];
      this[key] = typeof value === 'number' && value >= min && value <= max ? value : null;
    }
    if (typeof stored.system === 'string') this.system = stored.system;
    if (typeof stored.stop === 'string') this.stop = stored.stop;
    this.makeRoom = stored.makeRoom === true;
  }

  set(key, value) {
    this[key] = value;
    save(browser, 'settings', this);
  }

  resetNumbers() {
    for (const { key } of kNumbers) this[key] = null;
    this.set('stop', '');
  }

  /// The options of a `generate` frame, without messages. Every answer gets a seed from here, so
  /// that the same one can be asked for again.
  request(seed) {
    const options = { seed };
    for (const { key } of kNumbers) if (this[key] !== null) options[key] = this[key];
    const { strings, wrong } = parseStops(this.stop);
    if (!wrong && strings.length > 0) options.stop = strings;
    return options;
  }
}

export const randomSeed = () => Math.floor(Math.random() * 2 ** 48);

/// One string a line; \n, \t and \\ stand for line feed, tab and backslash. `wrong` is a sentence
/// or empty.
export function parseStops(typed) {
  const meaning = { n: '\n', t: '\t', '\\': '\\' };
  const strings = typed.split('\n').filter((line) => line !== '')
    .map((line) => line.replace(/\\([nt\\])/g, (_, letter) => meaning[letter]));
  let wrong = '';
  if (strings.length > kMaxStops) wrong = `At most ${kMaxStops} stop strings.`;
  if (strings.some((text) => new TextEncoder().encode(text).length > kMaxStopBytes)) {
    wrong = `A stop string has at most ${kMaxStopBytes} bytes.`;
  }
  return { strings, wrong };
}
