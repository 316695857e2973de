// One sentence above the message box, with what can be done about it.

import { byId, button, el, icon } from './dom.js';

export class Notice {
  #node = byId('notice');

  /// choices: [[label, action], ...]; tone: '', 'warn' or 'bad'.
  show(sentence, { tone = '', choices = [] } = {}) {
    const close = button('', null, () => this.hide(), 'tool square');
    close.append(icon('close'));
    close.setAttribute('aria-label', 'Dismiss');
    this.#node.className = `notice ${tone}`;
    this.#node.hidden = false;
    this.#node.replaceChildren(el('p', { text: sentence }),
      ...choices.map(([label, action]) => button(label, null, () => { this.hide(); action(); })), close);
  }

  hide() {
    const hadFocus = this.#node.contains(document.activeElement);
    this.#node.hidden = true;
    this.#node.replaceChildren();
    if (hadFocus) byId('prompt').focus();
  }
}
