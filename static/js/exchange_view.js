// One exchange on the page: the message, the answer, why it ended, its numbers and actions.

import { copyText } from './clipboard.js';
import { button, byId, el, icon } from './dom.js';
import { count, duration, rateText } from './figures.js';
import { GrowingText } from './growing_text.js';
import { describeEnd } from './reasons.js';

export class ExchangeView {
  node;
  #exchange;
  #chat;
  #text = new GrowingText();  // of the latest answer
  #answer;
  #progress = el('div', { class: 'progress' });
  #figures = el('div', { class: 'figures' });
  #foot;
  #pause = el('button', { type: 'button', class: 'tool', onclick: () => this.#chat.togglePause() });
  #trouble = null;

  constructor(exchange, chat) {
    this.#exchange = exchange;
    this.#chat = chat;
    const asked = el('div', { class: 'asked' },
      el('h2', { class: 'unseen', text: 'You' }),
      el('div', { class: 'said', text: exchange.prompt }),
      el('div', { class: 'actions edit-place' }));
    this.#foot = el('div', { class: 'foot' }, this.#figures);
    this.#answer = el('div', { class: 'answer' },
      el('h2', { class: 'unseen', text: 'Answer' }), this.#progress, this.#text.node, this.#foot);
    this.node = el('article', { class: 'exchange' }, asked, this.#answer);
    this.restart();
  }

  /// Shows the exchange's answer from its beginning: empty while waiting, whole when restored.
  restart() {
    const { answer } = this.#exchange;
    this.#trouble?.remove();
    const before = this.#text;
    this.#text = new GrowingText();
    before.node.replaceWith(this.#text.node);
    this.#figures.replaceChildren();
    this.#foot.replaceChildren(this.#figures, el('div', { class: 'actions' }, this.#pause));
    this.#foot.hidden = true;
    this.#progress.hidden = false;
    this.#progress.textContent = 'Sending…';
    this.#answer.className = 'answer live waiting';
    this.setPaused(answer.paused);
    this.#answer.setAttribute('aria-busy', 'true');
    if (answer.text || answer.status === 'live') {
      this.append(answer.text);
      this.#text.flush();
    }
    if (answer.status === 'done') this.finish();
    else if (answer.status === 'cut' || answer.status === 'failed') this.fail();
  }

  /// What happens before the first token; `done` of `total` draws a bar.
  progress(sentence, done = 0, total = 0) {
    if (this.#progress.hidden) return;
    this.#progress.textContent = sentence;
    if (total > 0) {
      const level = el('span');
      level.style.transform = `scaleX(${Math.min(1, done / total)})`;
      this.#progress.append(el('span', { class: 'track' }, level));
    }
  }

  append(text) {
    if (!this.#progress.hidden) {
      this.#progress.hidden = true;
      this.#answer.classList.remove('waiting');
      this.#foot.hidden = false;
    }
    this.#text.append(text);
  }

  setPaused(paused) {
    this.#pause.classList.toggle('firm', paused);
    this.#pause.replaceChildren(icon(paused ? 'play' : 'pause'),
      el('span', { text: paused ? 'Continue' : 'Pause' }), el('kbd', { text: 'Alt P' }));
  }

  /// The numbers so far, or what stands in the way; `lost`: there is no connection.
  live(figures, trouble, lost) {
    if (!this.#progress.hidden) return;
    const { paused } = this.#exchange.answer;
    this.#answer.classList.toggle('still', paused || lost);
    this.#pause.disabled = lost;
    const rate = figures.rate ? rateText(figures.rate) : '– tok/s';
    this.#show(trouble ? 0 : figures.ttft, trouble || (paused ? 'Paused' : rate), figures.tokens);
  }

  finish() {
    const { answer } = this.#exchange;
    const hadFocus = this.#pause === document.activeElement;
    this.#settle('answer');
    if (answer.text === '') {
      this.#progress.hidden = false;
      this.#progress.textContent = answer.stoppedHere ? 'No token was drawn yet.' : 'An empty answer.';
    }
    const { timing = {}, usage = {} } = answer.done;
    const rate = timing.tokens_per_second > 0 && rateText(timing.tokens_per_second);
    this.#show(timing.ttft_ms || answer.ttft, rate, usage.completion_tokens ?? 0);
    this.#foot.prepend(reasonOf(answer));
    this.#addActions();
    if (hadFocus) this.#foot.querySelector('button').focus();
  }

  /// The answer was cut off or refused: says so in place, and offers what can be done.
  fail() {
    const { answer } = this.#exchange;
    const tooLong = answer.code === 'prompt_too_long';
    this.#settle(answer.status === 'cut' ? 'answer cut' : 'answer failed');
    const choices = el('div', { class: 'choices' });
    const exchange = this.#exchange;
    const offer = (label, action) => choices.append(button(label, null, action, 'tool firm'));
    if (tooLong && this.#chat.conversation.canForget(exchange)) offer('Forget the oldest turns and go on', () => this.#chat.makeRoom(exchange));
    if (tooLong) {
      offer('Start a new chat with this message', () => this.#chat.newChat(exchange.prompt));
      offer('Edit the message', () => this.#chat.edit(exchange));
    } else {
      offer('Try again', () => this.#chat.retry(exchange));
    }
    this.#trouble = el('div', { class: 'trouble' }, icon('alert'), el('p', { text: answer.message }), choices);
    this.#foot.before(this.#trouble);
    this.#show(0, '', answer.drawn);
    this.#foot.hidden = answer.text === '';
    this.#addActions();
  }

  /// Only the last exchange can be edited or answered again.
  setLast(last) {
    this.node.classList.toggle('last', last);
    const place = this.node.querySelector('.edit-place');
    place.replaceChildren();
    this.node.querySelector('.again')?.toggleAttribute('hidden', !last);
    this.node.querySelector('.choices')?.toggleAttribute('hidden', !last);
    if (!last) return;
    const edit = button('Edit', 'edit', () => this.#chat.edit(this.#exchange));
    edit.append(el('kbd', { text: '↑' }));
    place.append(edit);
  }

  #show(ttft, rate, tokens) {
    this.#figures.replaceChildren(...[
      ttft > 0 && el('span', { title: 'Time to first token' }, 'TTFT ', el('b', { text: duration(ttft) })),
      rate && el('b', { text: rate }), el('b', { text: count(tokens, 'token') })].filter(Boolean));
  }

  #settle(classes) {
    this.#text.flush();
    this.#answer.className = classes;
    this.#answer.removeAttribute('aria-busy');
    this.#progress.hidden = true;
    this.#foot.replaceChildren(this.#figures);
    this.#foot.hidden = false;
  }

  #addActions() {
    const { answer } = this.#exchange;
    const actions = el('div', { class: 'actions' });
    if (answer.text) {
      const copy = button('Copy', 'copy', () => copyText(answer.text, copy));
      actions.append(copy);
    }
    if (answer.status === 'done') {
      actions.append(button('Regenerate', 'again', () => this.#chat.again(this.#exchange), 'tool again'));
    }
    this.#foot.append(actions);
  }
}

let tips = 0;

function reasonOf({ done, stoppedHere, ttft, seed }) {
  const { before, code, after, tone, sentence } = describeEnd(done, stoppedHere);
  const { timing = {}, usage = {} } = done;
  const id = `tip-${++tips}`;
  const facts = [
    ['Rule', done.rule],
    ['Prompt', `${count(usage.prompt_tokens ?? 0, 'token')}, ${usage.cached_tokens ?? 0} cached`],
    ['Waited', duration(timing.queued_ms)],
    ['First token after', duration(timing.ttft_ms || NaN)],
    ['As seen from here', duration(ttft || NaN)],
    ['In all', duration(timing.total_ms)],
    ['Seed', seed],
  ];
  const chip = el('button', { type: 'button', class: `chip ${tone}`, 'aria-describedby': id },
    icon('gate'), el('span', {}, before, code && el('code', { text: code }), after));
  const tip = el('div', { class: 'tip', role: 'tooltip', id }, el('p', { text: sentence }),
    el('dl', {}, ...facts.flatMap(([name, value]) => [el('dt', { text: name }), el('dd', { text: value })])));
  const reason = el('div', { class: 'reason' }, chip, tip);
  chip.addEventListener('keydown', ({ key }) => { if (key === 'Escape') reason.classList.add('closed'); });
  for (const type of ['mouseenter', 'focusin']) {
    reason.addEventListener(type, () => {
      const room = chip.getBoundingClientRect().top - byId('scroller').getBoundingClientRect().top;
      tip.classList.toggle('below', room < tip.offsetHeight + 8);
    });
  }
  for (const type of ['mouseleave', 'focusout']) {
    reason.addEventListener(type, () => reason.classList.remove('closed'));
  }
  return reason;
}
