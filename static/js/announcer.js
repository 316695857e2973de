// Speaks to screen readers: whole sentences of an answer, every few seconds at most, and the end.

import { byId, el } from './dom.js';

const kPause = 3000;  // ms between two pieces of an answer
const kKept = 4;      // messages left in the region

export class Announcer {
  #region = byId('announcer');
  #text = '';
  #spokenAt = 0;

  say(sentence) {
    this.#region.append(el('p', { text: sentence }));
    while (this.#region.childElementCount > kKept) this.#region.firstChild.remove();
  }

  begin() {
    this.#text = '';
    this.#spokenAt = performance.now();
  }

  append(text) {
    this.#text += text;
    if (performance.now() - this.#spokenAt < kPause) return;
    const end = lastSentenceEnd(this.#text);
    if (end === 0) return;
    this.say(this.#text.slice(0, end).trim());
    this.#text = this.#text.slice(end);
    this.#spokenAt = performance.now();
  }

  end(sentence) {
    const rest = this.#text.trim();
    this.#text = '';
    this.say(rest ? `${rest} (${sentence})` : sentence);
  }
}

function lastSentenceEnd(text) {
  let end = 0;
  for (const match of text.matchAll(/[.!?…。！？]["”’)]*\s|\n/g)) end = match.index + match[0].length;
  return end;
}
