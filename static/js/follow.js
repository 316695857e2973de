// Keeps the newest text in view, but only for a reader who is at the bottom.

import { byId } from './dom.js';

const kNear = 40;  // px from the bottom that count as being there

export class Follow {
  #scroller = byId('scroller');
  #jump = byId('jump');
  #following = true;
  #lastTop = 0;

  constructor() {
    this.#scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    this.#jump.addEventListener('click', () => {
      this.start();
      this.#scroller.focus({ preventScroll: true });
    });
    const watch = new ResizeObserver(() => this.#toBottom());
    watch.observe(this.#scroller);
    watch.observe(byId('conversation'));
  }

  /// To the bottom, and stay there.
  start() {
    this.#following = true;
    this.#toBottom();
  }

  #toBottom() {
    if (this.#following) this.#scroller.scrollTop = byId('conversation').hidden ? 0 : 1e9;
    this.#show();
  }

  #scrolled() {
    const { scrollTop } = this.#scroller;
    if (this.#distance() < kNear) this.#following = true;
    else if (scrollTop < this.#lastTop - 1) this.#following = false;
    this.#lastTop = scrollTop;
    this.#show();
  }

  #show() {
    byId('bar').classList.toggle('raised', this.#scroller.scrollTop > 4);
    const away = !this.#following && this.#distance() >= kNear;
    if (!away && this.#jump === document.activeElement) this.#scroller.focus({ preventScroll: true });
    this.#jump.hidden = !away;
  }

  #distance() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }
}
