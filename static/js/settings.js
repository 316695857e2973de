// What the user has set. null means: as the server does by default (see `hello`).

import { browser, load, save } from './storage.js';

/// A field with bounds: {key, label, hint, min, max, step (slider), whole, standard(hello)}.
export const kNumbers = [
  {
    key: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.05,
    hint: 'Low is steady, high is daring; 0 always takes the likeliest token.',
    standard: (hello) => hello.sampling?.temperature,
  },
  {
    key: 'top_p', label: 'Top-p', min: 0, max: 1, step: 0.01,
    hint: 'Draw from the smallest set of tokens with this much probability; 1 is off.',
    standard: (hello) => hello.sampling?.top_p,
  },
  {
    key: 'top_k', label: 'Top-k', min: 0, max: 1000000, whole: true,
    hint: 'Draw from the k likeliest tokens; 0 is off.',
    standard: (hello) => hello.sampling?.top_k,
  },
  {
    key: 'min_p', label: 'Min-p', min: 0, max: 1, step: 0.01,
    hint: 'Leave out tokens less likely than this share of the best one; 0 is off.',
    standard: (hello) => hello.sampling?.min_p,
  },
  {
    key: 'max_tokens', label: 'Longest answer', min: 1, max: 1000000, whole: true,
    hint: 'In tokens. Comes before every other rule.',
    standard: (hello) => hello.max_tokens_default,
  },
  {
    key: 'seed', label: 'Seed', min: 0, max: Number.MAX_SAFE_INTEGER, whole: true, long: true,
    hint: 'The same seed, settings and conversation give the same answer. Empty: a new one each time.',
    standard: () => 'random',
  },
];

const kMaxStops = 64;
const kMaxStopBytes = 1024;

export class Settings extends EventTarget {
  system = '';
  stop = '';           // as typed, one string a line
  makeRoom = false;    // forget the oldest turns without asking

  constructor() {
    super();
    const stored = load(browser, 'settings', {});
    for (const field of kNumbers) this[field.key] = parseNumber(field, stored[field.key]).value;
    if (typeof stored.system === 'string') this.system = stored.system;
    if (typeof stored.stop === 'string') this.stop = stored.stop;
    this.makeRoom = stored.makeRoom === true;
  }

  set(key, value) {
    this[key] = value;
    this.#save();
  }

  resetNumbers() {
    for (const { key } of kNumbers) this[key] = null;
    this.stop = '';
    this.#save();
  }

  /// The options of a `generate` frame, without messages. Every answer gets a seed from here, so
  /// that the same one can be asked for again.
  request(seed) {
    const options = { seed: this.seed ?? seed };
    for (const { key } of kNumbers) {
      if (key !== 'seed' && this[key] !== null) options[key] = this[key];
    }
    const { strings, wrong } = parseStops(this.stop);
    if (!wrong && strings.length > 0) options.stop = strings;
    return options;
  }

  #save() {
    const { system, stop, makeRoom } = this;
    const numbers = Object.fromEntries(kNumbers.map(({ key }) => [key, this[key]]));
    save(browser, 'settings', { ...numbers, system, stop, makeRoom });
    this.dispatchEvent(new Event('change'));
  }
}

export const randomSeed = () => Math.floor(Math.random() * 2 ** 48);

/// {value, wrong}: value null for an empty field or a wrong one; wrong is a sentence or ''.
export function parseNumber(field, typed) {
  const text = String(typed ?? '').trim().replace(',', '.');
  if (text === '') return { value: null, wrong: '' };
  const value = Number(text);
  const fits = Number.isFinite(value) && value >= field.min && value <= field.max
    && (!field.whole || Number.isInteger(value));
  if (fits) return { value, wrong: '' };
  const kind = field.whole ? 'a whole number' : 'a number';
  return { value: null, wrong: `${field.label} is ${kind} from ${field.min} to ${field.max}.` };
}

/// One string a line; \n, \t and \\ stand for line feed, tab and backslash.
export function parseStops(typed) {
  const meaning = { n: '\n', t: '\t', '\\': '\\' };
  const strings = typed.split('\n').filter((line) => line !== '')
    .map((line) => line.replace(/\\([nt\\])/g, (_, letter) => meaning[letter]));
  const bytes = (text) => new TextEncoder().encode(text).length;
  let wrong = '';
  if (strings.length > kMaxStops) wrong = `At most ${kMaxStops} stop strings.`;
  if (strings.some((text) => bytes(text) > kMaxStopBytes)) {
    wrong = `A stop string has at most ${kMaxStopBytes} bytes.`;
  }
  return { strings, wrong };
}
