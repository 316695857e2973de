// Text that grows at its end, and stays fast however long it gets.
//
// What arrives between two paints becomes one fading span; when it has faded it melts into the
// text node before it. After some length a line feed opens a new block, so that the browser lays
// out only the last block again.

import { beforePaint, el } from './dom.js';

const kFade = 400;       // ms; the animation in conversation.css is shorter
const kBlockSize = 1500; // characters

export class GrowingText {
  node = el('div', { class: 'text' });
  #pending = '';
  #block = null;
  #fresh = [];
  #timer = 0;
  #write = () => this.flush();

  append(text) {
    if (!text) return;
    this.#pending += text;
    beforePaint(this.#write);
  }

  /// Writes at once what waits for the next paint (which a hidden page never has).
  flush() {
    let rest = this.#pending;
    this.#pending = '';
    if (!rest) return;
    while (rest) rest = this.#writeInto(this.#blockFor(), rest);
    this.#settle(performance.now() - kFade);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(Infinity), kFade + 50);
  }

  #blockFor() {
    if (this.#block === null || this.#block.full) {
      const text = document.createTextNode('');
      this.#block = { node: el('div', {}, text), text, length: 0, full: false };
      this.node.append(this.#block.node);
    }
    return this.#block;
  }

  /// Returns what belongs into the next block.
  #writeInto(block, text) {
    let end = text.length;
    const lineFeed = text.indexOf('\n', Math.max(0, kBlockSize - block.length));
    if (lineFeed >= 0) {
      end = lineFeed + 1;
      block.full = true;
    }
    const span = el('span', { class: 'fresh', text: text.slice(0, end) });
    block.node.append(span);
    block.length += end;
    this.#fresh.push({ span, block, time: performance.now() });
    return text.slice(end);
  }

  #settle(before) {
    while (this.#fresh.length > 0 && this.#fresh[0].time <= before) {
      const { span, block } = this.#fresh.shift();
      block.text.appendData(span.textContent);
      span.remove();
    }
  }
}
