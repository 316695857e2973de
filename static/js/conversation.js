// What was said: a list of exchanges, each a message and its answer.
//
// exchange: {prompt, forgotten, answer}
// answer: {text, status, drawn, seed, accepted, done, ttft, stoppedHere, paused, code, message, key, n}
// status: waiting, live, then one of done, cut (interrupted) and failed (an error).
// key and n: the stream at the server, and its last event that is part of `text`.

import { load, save, tab } from './storage.js';

const kCharactersPerToken = 3;  // a cautious guess for what nobody has counted
const kTemplateTokens = 8;      // of a turn's wrapping

export class Conversation {
  exchanges = [];

  static restored() {
    const conversation = new Conversation();
    const stored = load(tab, 'conversation', []);
    if (!Array.isArray(stored)) return conversation;
    for (const { prompt, forgotten, answer } of stored.filter(Boolean)) {
      if (typeof prompt !== 'string' || typeof answer?.text !== 'string') return conversation;
      if (answer.status === 'done' && typeof answer.done?.rule !== 'string') return conversation;
      if (isUnderWay(answer) && !answer.key) {
        answer.status = 'cut';
        answer.message = 'The page was reloaded while this answer was on its way.';
      }
      conversation.exchanges.push({ prompt, forgotten: forgotten === true, answer: { ...newAnswer(), ...answer } });
    }
    return conversation;
  }

  save() {
    save(tab, 'conversation', this.exchanges.length > 0 ? this.exchanges : null);
  }

  get last() {
    return this.exchanges.at(-1) ?? null;
  }

  add(prompt, seed) {
    const exchange = { prompt, forgotten: false, answer: newAnswer(seed) };
    this.exchanges.push(exchange);
    return exchange;
  }

  /// What the model is to see, ending with the message of `exchange`.
  messagesFor(exchange, system) {
    const messages = system ? [{ role: 'system', content: system }] : [];
    for (const earlier of this.#rememberedBefore(exchange)) {
      messages.push({ role: 'user', content: earlier.prompt });
      messages.push({ role: 'assistant', content: earlier.answer.text });
    }
    messages.push({ role: 'user', content: exchange.prompt });
    return messages;
  }

  /// Makes the model forget the oldest exchanges before `exchange`: at least one, then as many
  /// as it takes for the rest to fill about half of the context. False when none is left.
  forgetOldest(exchange, contextLength) {
    const before = this.#rememberedBefore(exchange);
    if (before.length === 0) return false;
    let size = before.reduce((sum, earlier) => sum + sizeOf(earlier), sizeOf(exchange));
    do {
      const oldest = before.shift();
      oldest.forgotten = true;
      size -= sizeOf(oldest);
    } while (before.length > 0 && size > contextLength / 2);
    // Failed exchanges in between go with their surroundings.
    const lastForgotten = this.exchanges.findLastIndex((earlier) => earlier.forgotten);
    for (const earlier of this.exchanges.slice(0, lastForgotten)) earlier.forgotten = true;
    return true;
  }

  canForget(exchange) {
    return this.#rememberedBefore(exchange).length > 0;
  }

  /// Exchanges that brought no answer are left out.
  #rememberedBefore(exchange) {
    return this.exchanges.slice(0, this.exchanges.indexOf(exchange))
      .filter(({ forgotten, answer }) => !forgotten && answer.text !== '');
  }
}

export function newAnswer(seed) {
  return {
    text: '', status: 'waiting', drawn: 0, seed, accepted: null, done: null, ttft: 0, stoppedHere: false,
    paused: false, code: '', message: '', key: null, n: 0,
  };
}

export const isUnderWay = ({ status }) => status === 'waiting' || status === 'live';

function sizeOf({ prompt, answer }) {
  return prompt.length / kCharactersPerToken + answer.drawn + kTemplateTokens;
}
