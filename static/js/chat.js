// What the user can do: send, stop, try again, edit, start afresh. Ties the parts together.

import { byId } from './dom.js';
import { showContext } from './context_meter.js';
import { Figures, count } from './figures.js';
import { isUnderWay, newAnswer } from './conversation.js';
import { describeEnd } from './reasons.js';
import { randomSeed } from './settings.js';

const kTick = 250;        // ms between two updates of the live numbers
const kSilence = 20000;   // ms without any sign of life that are worth a word
const kPatience = 1500;   // ms of waiting after which its length is shown
const kKeep = 30000;      // ms that the server is to keep a stream whose page is away
const kGone = ['unknown_stream', 'gone_too_far'];

export class Chat {
  #parts;          // {connection, streams, conversation, settings, composer, announcer, notice, follow}
  #transcript = null;
  #hello = {};
  #active = null;   // {exchange, id, figures, phase, heartbeat, timer, mayForget}
  #keep = kKeep;    // 0 where the server keeps no streams
  #offline = false; // the notice says so
  #editing = null;  // the exchange that the next message replaces

  constructor(parts) {
    this.#parts = parts;
  }

  begin(transcript) {
    this.#transcript = transcript;
    transcript.update();
    this.#drawContext();
    const exchange = this.#parts.conversation.last;
    if (exchange && isUnderWay(exchange.answer)) this.#takeUp(exchange);
  }

  setHello(hello) {
    this.#hello = hello;
    if (this.#offline) this.#parts.notice.hide();
    this.#offline = false;
    this.#drawContext();
  }

  get busy() {
    return this.#active !== null;
  }

  /// True when the message is on its way; otherwise it stays where it is.
  send(text) {
    const { conversation, composer, notice, follow } = this.#parts;
    if (this.busy) {
      composer.nudge();
      return false;
    }
    if (!this.#reachable('Your text stays here until it is back.')) return false;
    notice.hide();
    if (this.#editing !== null) conversation.exchanges.pop();
    this.#editing = null;
    const exchange = conversation.add(text, randomSeed());
    this.#transcript.update();
    follow.start();
    this.#ask(exchange);
    return true;
  }

  /// True when there was something to stop.
  stop() {
    const { streams, composer } = this.#parts;
    if (!this.busy) return false;
    const { exchange, id } = this.#active;
    exchange.answer.stoppedHere = true;
    composer.setBusy('stopping');
    this.#transcript.view(exchange).progress('Stopping…');
    streams.cancel(id);
    return true;
  }

  /// Closes the gate in a running answer, or opens it again. False when there is none.
  togglePause() {
    const active = this.#active;
    if (!active?.figures.tokens || active.exchange.answer.stoppedHere) return false;
    const paused = !active.exchange.answer.paused;
    if (!this.#parts.streams.pause(active.id, paused)) return false;
    this.#setPaused(active, paused);
    this.#parts.announcer.say(paused ? 'Paused.' : 'The answer goes on.');
    return true;
  }

  /// The same once more: the same seed draws the same answer.
  retry(exchange) {
    this.#askAgain(exchange, exchange.answer.seed);
  }

  /// Another answer.
  again(exchange) {
    this.#askAgain(exchange, randomSeed());
  }

  makeRoom(exchange) {
    if (this.busy || !this.#reachable('Try again when it is back.')) return;
    this.#parts.conversation.forgetOldest(exchange, this.#hello.context_length);
    this.#askAgain(exchange, exchange.answer.seed, true);
  }

  edit(exchange) {
    const { composer, notice } = this.#parts;
    if (this.busy || !exchange) return false;
    this.#editing = exchange;
    composer.edit(exchange.prompt);
    notice.show('You are editing your last message. Sending it replaces that message and its answer.',
      { choices: [['Leave it as it was', () => this.cancelEdit()]] });
    return true;
  }

  cancelEdit() {
    if (this.#editing === null) return;
    this.#editing = null;
    this.#parts.composer.cancelEdit();
    this.#parts.notice.hide();
  }

  newChat(text = '') {
    const { conversation, composer, notice } = this.#parts;
    this.cancelEdit();
    const earlier = conversation.exchanges;
    this.#abandon();
    conversation.exchanges = [];
    this.#changed();
    notice.hide();
    if (earlier.length > 0) {
      notice.show('A new chat. The model remembers nothing of the last one.',
        { choices: [['Bring it back', () => this.#bringBack(earlier)]] });
    }
    if (text) composer.text = text;
    composer.settle();
  }

  /// Keeps what is there when the page goes away.
  save() {
    this.#parts.conversation.save();
  }

  #bringBack(exchanges) {
    this.#abandon();
    this.#parts.conversation.exchanges = exchanges;
    this.#changed();
    this.#parts.follow.start();
  }

  #reachable(advice) {
    const { connection, notice } = this.#parts;
    this.#offline = connection.state !== 'open';
    if (!this.#offline) return true;
    notice.show(`No connection to the server. ${advice}`, { tone: 'warn' });
    connection.retryNow();
    return false;
  }

  #askAgain(exchange, seed, mayForget = false) {
    const { notice, conversation } = this.#parts;
    if (this.busy || exchange !== conversation.last) return;
    if (!this.#reachable('Try again when it is back.')) return;
    this.cancelEdit();
    notice.hide();
    exchange.answer = newAnswer(seed);
    this.#transcript.view(exchange).restart();
    this.#transcript.update();
    this.#parts.follow.start();
    if (document.activeElement === document.body) byId('scroller').focus({ preventScroll: true });
    this.#ask(exchange, mayForget);
  }

  #ask(exchange, mayForget = this.#parts.settings.makeRoom) {
    const { streams, conversation, settings } = this.#parts;
    const options = settings.request(exchange.answer.seed);
    exchange.answer.seed = options.seed;
    const request = { messages: conversation.messagesFor(exchange, settings.system.trim()), ...options };
    if (this.#keep > 0) request.keep_ms = this.#keep;
    const active = { exchange, figures: new Figures(), phase: 'sent', mayForget };
    active.id = streams.start(request, this.#listener(active));
    if (active.id === null) this.#fail(active, 'cut', 'The connection to the server is lost. Nothing was sent.');
    else this.#begin(active);
  }

  /// An answer that was under way when the page was loaded again.
  #takeUp(exchange) {
    const { answer } = exchange;
    const active = { exchange, figures: new Figures(answer), phase: 'sent', mayForget: false };
    active.id = this.#parts.streams.resume(answer.key, answer.n, this.#listener(active));
    this.#begin(active);
    this.#setPaused(active, answer.paused);
  }

  #begin(active) {
    this.#active = active;
    active.timer = setInterval(() => this.#tick(active), kTick);
    this.#parts.announcer.begin();
    this.#parts.composer.setBusy('answering');
    document.body.classList.add('streaming');
    this.#parts.conversation.save();
  }

  #setPaused(active, paused) {
    active.exchange.answer.paused = paused;
    this.#transcript.view(active.exchange).setPaused(paused);
    this.#tick(active);
  }

  #listener(active) {
    const { exchange, figures } = active;
    const { answer } = exchange;
    const view = this.#transcript.view(exchange);
    const { announcer } = this.#parts;
    return {
      accepted: (frame) => {
        answer.accepted = frame;
        answer.key = frame.stream;
        answer.n = frame.n;
        active.phase = frame.type;
        figures.heard();
        this.#tick(active);
        this.#parts.conversation.save();
      },
      heartbeat: (frame) => {
        active.phase = frame.phase;
        active.heartbeat = frame;
        figures.heard();
        if (answer.paused !== (frame.phase === 'paused')) this.#setPaused(active, !answer.paused);
        else this.#tick(active);
      },
      token: (frame) => {
        figures.add(frame.tokens?.filter(({ id }) => id >= 0).length ?? 1);
        const text = String(frame.text ?? '');
        answer.status = 'live';
        answer.n = frame.n;
        answer.ttft = figures.ttft;
        answer.drawn = figures.tokens;
        answer.text += text;
        view.append(text);
        announcer.append(text);
        if (figures.tokens === 1) this.#tick(active);
      },
      done: (frame) => {
        answer.status = 'done';
        answer.done = frame;
        answer.drawn = frame.usage?.completion_tokens ?? answer.drawn;
        this.#end(active);
        view.finish();
        const { before, code, after } = describeEnd(frame, answer.stoppedHere);
        announcer.end(`${before}${code}${after}. ${count(answer.drawn, 'token')}.`);
        this.#changed();
      },
      error: (frame) => this.#refused(active, frame),
      lost: () => this.#fail(active, 'cut', answer.text
        ? 'The connection broke before this answer was complete.'
        : 'The connection broke before the answer began.'),
    };
  }

  #refused(active, { code, message }) {
    const { exchange } = active;
    const { conversation } = this.#parts;
    if (code === 'prompt_too_long' && active.mayForget && conversation.canForget(exchange)) {
      this.#end(active);
      conversation.forgetOldest(exchange, this.#hello.context_length);
      this.#transcript.update();
      this.#ask(exchange, true);
      return;
    }
    if (code === 'invalid_request' && this.#keep > 0 && message?.includes('keep_ms')) {
      this.#keep = 0;
      this.#end(active);
      this.#ask(exchange, active.mayForget);
      return;
    }
    if (kGone.includes(code)) {
      this.#fail(active, 'cut', 'Interrupted: the server no longer has the rest of this answer.');
      return;
    }
    exchange.answer.code = code;
    const tooLong = code === 'prompt_too_long' ? 'This conversation no longer fits into the model’s context. ' : '';
    this.#fail(active, 'failed', `${tooLong}${message || 'The server gave no reason.'}`);
  }

  #fail(active, status, message) {
    const { exchange } = active;
    exchange.answer.status = status;
    exchange.answer.message = message;
    this.#end(active);
    this.#transcript.view(exchange).fail();
    this.#parts.announcer.end(message);
    this.#changed();
  }

  #end(active) {
    clearInterval(active.timer);
    this.#active = null;
    document.body.classList.remove('streaming');
    this.#parts.composer.setBusy('');
  }

  /// Leaves a running answer behind without waiting for its end.
  #abandon() {
    if (!this.busy) return;
    const active = this.#active;
    const { answer } = active.exchange;
    this.#parts.streams.forget(active.id);
    this.#parts.streams.cancel(active.id);
    answer.status = 'cut';
    answer.message = 'You left this answer before it was complete.';
    this.#end(active);
    this.#transcript.view(active.exchange).fail();
  }

  #changed() {
    this.#transcript.update();
    this.#parts.conversation.save();
    this.#drawContext();
  }

  #tick(active) {
    if (active !== this.#active) return;
    const { exchange, figures } = active;
    const view = this.#transcript.view(exchange);
    const idle = performance.now() - figures.heardAt;
    const lost = this.#parts.connection.state !== 'open';
    let trouble = '';
    if (lost) trouble = 'Connection lost. The answer goes on when it is back.';
    else if (idle > kSilence) trouble = `The server has been silent for ${Math.floor(idle / 1000)} s.`;
    if (figures.tokens > 0) view.live(figures, trouble, lost);
    else if (!exchange.answer.stoppedHere) view.progress(...(trouble ? [trouble] : progressOf(active)));
    this.#drawContext();
  }

  /// Counts what the model was shown last and what it has drawn since.
  #drawContext() {
    const { exchanges } = this.#parts.conversation;
    const answer = exchanges.findLast((exchange) => exchange.answer.accepted !== null)?.answer;
    showContext(answer ? answer.accepted.prompt_tokens + answer.drawn : 0, this.#hello.context_length);
  }
}

function progressOf({ phase, heartbeat, figures }) {
  const waited = performance.now() - figures.sentAt;
  const seconds = waited > kPatience ? ` · ${Math.floor(waited / 1000)} s` : '';
  switch (phase) {
    case 'queued': {
      const ahead = heartbeat.queue_position - 1;
      return [ahead > 0 ? `In the queue, ${ahead} ahead of you${seconds}` : `Next in the queue${seconds}`];
    }
    case 'prefill':
      return [`Reading the prompt, ${heartbeat.prefill_done} of ${heartbeat.prefill_total} tokens${seconds}`,
        heartbeat.prefill_done, heartbeat.prefill_total];
    case 'paused':
      return [`Paused${seconds}`];
    default:
      return [`Waiting for the first token${seconds}`];
  }
}
