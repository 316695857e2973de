// The message box. What stands in it is remembered, whatever happens.

import { byId, hasKeyboard } from './dom.js';
import { browser, load, save } from './storage.js';

export class Composer {
  /// Called with the text; returns true when it was taken.
  onsend = () => false;
  onstop = () => {};
  #box = byId('prompt');
  #send = byId('send');
  #stop = byId('stop');
  #aside = null;  // the draft that waits while an earlier message is edited

  constructor() {
    this.#box.value = String(load(browser, 'draft', ''));
    this.#box.addEventListener('input', () => this.#changed());
    this.#box.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.submit();
    });
    this.#send.addEventListener('click', () => this.submit());
    this.#stop.addEventListener('click', () => this.onstop());
    addEventListener('resize', () => this.#fit());
    this.#changed();
  }

  get text() {
    return this.#box.value;
  }

  set text(text) {
    this.#box.value = text;
    this.#changed();
  }

  submit() {
    const text = this.#box.value.trim();
    if (text === '' || !this.onsend(text)) return;
    this.text = this.#aside ?? '';
    this.#aside = null;
    this.settle();
  }

  /// Puts an earlier message into the box; the draft comes back afterwards.
  edit(text) {
    this.#aside ??= this.text;
    this.text = text;
    this.focus();
    this.#box.setSelectionRange(text.length, text.length);
  }

  cancelEdit() {
    if (this.#aside === null) return;
    this.text = this.#aside;
    this.#aside = null;
  }

  /// busy: '', 'answering' or 'stopping'.
  setBusy(busy) {
    const hadFocus = document.activeElement === this.#stop;
    this.#stop.hidden = busy === '';
    this.#send.hidden = busy !== '';
    this.#stop.disabled = busy === 'stopping';
    if (hadFocus) this.settle();
  }

  /// Where writing goes on, but only where that raises no keyboard.
  settle() {
    if (hasKeyboard()) this.focus();
  }

  focus() {
    this.#box.focus();
  }

  #changed() {
    this.#send.disabled = this.#box.value.trim() === '';
    save(browser, 'draft', this.#aside ?? (this.#box.value || null));
    this.#fit();
  }

  #fit() {
    this.#box.style.height = 'auto';
    this.#box.style.height = `${this.#box.scrollHeight}px`;
  }
}
