// All exchanges on the page, and which of them is last, forgotten or under the dividing line.

import { byId } from './dom.js';
import { ExchangeView } from './exchange_view.js';

export class Transcript {
  #views = new Map();
  #conversation;
  #chat;

  constructor(conversation, chat) {
    this.#conversation = conversation;
    this.#chat = chat;
  }

  view(exchange) {
    return this.#views.get(exchange);
  }

  /// Brings the page in line with the list of exchanges; views of known ones are kept.
  update() {
    const { exchanges, last } = this.#conversation;
    for (const [exchange, view] of this.#views) {
      if (exchanges.includes(exchange)) continue;
      view.node.remove();
      this.#views.delete(exchange);
    }
    for (const exchange of exchanges) {
      if (!this.#views.has(exchange)) {
        const view = new ExchangeView(exchange, this.#chat);
        this.#views.set(exchange, view);
        byId('conversation').append(view.node);
      }
      const view = this.view(exchange);
      view.setLast(exchange === last);
      view.node.classList.toggle('forgotten', exchange.forgotten);
    }
    byId('welcome').hidden = exchanges.length > 0;
    byId('conversation').hidden = exchanges.length === 0;
  }
}
