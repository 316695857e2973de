// One exchange on the page: the message, the answer, why it ended, its numbers and actions.

import { copyText } from './clipboard.js';
import { button, byId, el, icon } from './dom.js';
import { count, duration, rateText } from './figures.js';
import { GrowingText } from './growing_text.js';
import { describeEnd } from './reasons.js';

export class ExchangeView {
  node;
  #exchange;
  #actions;      // {edit, again, retry, makeRoom, newChatWith, togglePause, canForget}
  #text = new GrowingText();  // of the latest answer
  #answer;
  #progress = el('div', { class: 'progress' });
  #figures = el('div', { class: 'figures' });
  #foot;
  #pause = el('button', { type: 'button', class: 'tool', onclick: () => this.#actions.togglePause() });
  #trouble = null;
  #divider = null;
  #onwrite;

  constructor(exchange, actions, onwrite) {
    this.#exchange = exchange;
    this.#actions = actions;
    this.#onwrite = onwrite;
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
    this.#text = new GrowingText(this.#onwrite);
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
    this.#figures.replaceChildren(
      ...(trouble ? [el('span', { text: trouble })] : [
        figure('TTFT', duration(figures.ttft)),
        paused ? el('b', { text: 'Paused' }) : figure('', figures.rate ? rateText(figures.rate) : '– tok/s'),
      ]),
      figure('', count(figures.tokens, 'token')));
  }

  finish() {
    const { answer } = this.#exchange;
    const hadFocus = this.#pause === document.activeElement;
    this.#settle('answer');
    if (answer.text === '') {
      this.#progress.hidden = false;
      this.#progress.textContent = answer.stoppedHere ? 'No token was drawn yet.' : 'An empty answer.';
    }
    this.#figures.replaceChildren(...finalFigures(answer));
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
    const offer = (label, action) => choices.append(
      button(label, null, () => this.#actions[action](this.#exchange), 'tool firm'));
    if (tooLong && this.#actions.canForget(this.#exchange)) offer('Forget the oldest turns and go on', 'makeRoom');
    if (tooLong) {
      offer('Start a new chat with this message', 'newChatWith');
      offer('Edit the message', 'edit');
    } else {
      offer('Try again', 'retry');
    }
    this.#trouble = el('div', { class: 'trouble' }, icon('alert'), el('p', { text: answer.message }), choices);
    this.#foot.before(this.#trouble);
    this.#figures.replaceChildren(figure('', count(answer.drawn, 'token')));
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
    const edit = button('Edit', 'edit', () => this.#actions.edit(this.#exchange));
    edit.append(el('kbd', { text: '↑' }));
    place.append(edit);
  }

  setForgotten(forgotten) {
    this.node.classList.toggle('forgotten', forgotten);
  }

  /// A line above this exchange: the model sees nothing before it.
  setDivider(wanted) {
    if (wanted && this.#divider === null) {
      this.#divider = el('p', { class: 'divider', text: 'The model no longer sees what is above' });
      this.node.prepend(this.#divider);
    } else if (!wanted) {
      this.#divider?.remove();
      this.#divider = null;
    }
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
      actions.append(button('Regenerate', 'again', () => this.#actions.again(this.#exchange), 'tool again'));
    }
    this.#foot.append(actions);
  }
}

function figure(label, value) {
  return el('span', { title: label && 'Time to first token' }, label && `${label} `, el('b', { text: value }));
}

function finalFigures({ done, ttft }) {
  const { timing = {}, usage = {} } = done;
  const figures = [];
  if (timing.ttft_ms > 0 || ttft > 0) figures.push(figure('TTFT', duration(timing.ttft_ms || ttft)));
  if (timing.tokens_per_second > 0) figures.push(figure('', rateText(timing.tokens_per_second)));
  figures.push(figure('', count(usage.completion_tokens ?? 0, 'token')));
  return figures;
}

let tips = 0;

function reasonOf({ done, stoppedHere, ttft, seed }) {
  const { before, code, after, tone, sentence } = describeEnd(done, stoppedHere);
  const { timing = {}, usage = {} } = done;
  const id = `tip-${++tips}`;
  const facts = el('dl');
  const fact = (name, value) => facts.append(el('dt', { text: name }), el('dd', { text: value }));
  fact('Rule', String(done.rule));
  fact('Prompt', `${count(usage.prompt_tokens ?? 0, 'token')}, ${usage.cached_tokens ?? 0} cached`);
  fact('Waited', duration(timing.queued_ms));
  if (timing.ttft_ms > 0) fact('First token after', duration(timing.ttft_ms));
  if (ttft > 0) fact('As seen from here', duration(ttft));
  fact('In all', duration(timing.total_ms));
  if (seed !== undefined) fact('Seed', String(seed));
  const chip = el('button', { type: 'button', class: `chip ${tone}`, 'aria-describedby': id },
    icon('gate'), el('span', {}, before, code && el('code', { text: code }), after));
  const tip = el('div', { class: 'tip', role: 'tooltip', id }, el('p', { text: sentence }), facts);
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
