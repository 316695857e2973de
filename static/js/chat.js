// What the user can do: send, stop, try again, edit, start afresh. Ties the parts together.

import { byId } from './dom.js';
import { showContext } from './context_meter.js';
import { Figures, count } from './figures.js';
import { isUnderWay, newAnswer } from './conversation.js';
import { describeEnd } from './reasons.js';
import { randomSeed } from './settings.js';

const kTick = 250;        // ms between two updates of the live numbers
const kSilence = 22000;   // ms without any sign of life; a heartbeat is due every 10 s
const kPatience = 1500;   // ms of waiting after which its length is shown
const kKeep = 30000;      // ms that the server is to keep a stream whose page is away
const kSettle = 1000;     // ms until the server's word on pausing counts again
const kGone = ['unknown_stream', 'gone_too_far'];

export class Chat {
  #transcript = null;
  #hello = {};
  #active = null;   // {exchange, id, figures, heartbeat, steeredAt, timer, mayForget}
  #keep = kKeep;    // 0 where the server keeps no streams
  #offline = false; // the notice says so
  #editing = null;  // the exchange that the next message replaces

  /// parts: {connection, streams, conversation, settings, composer, announcer, notice, follow}
  constructor(parts) {
    Object.assign(this, parts);
  }

  begin(transcript) {
    this.#transcript = transcript;
    transcript.update();
    this.#drawContext();
    const exchange = this.conversation.last;
    if (exchange && isUnderWay(exchange.answer)) this.#takeUp(exchange);
  }

  setHello(hello) {
    this.#hello = hello;
    if (this.#offline) this.notice.hide();
    this.#offline = false;
    this.#drawContext();
  }

  get busy() {
    return this.#active !== null;
  }

  /// True when the message is on its way; otherwise it stays where it is.
  send(text) {
    const { conversation, notice, follow } = this;
    if (this.busy) return false;
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
    if (!this.busy) return false;
    this.#active.exchange.answer.stoppedHere = true;
    this.composer.setBusy('stopping');
    this.#tick(this.#active);
    this.streams.cancel(this.#active.id);
    return true;
  }

  /// Closes the gate in a running answer, or opens it again. False when there is none.
  togglePause() {
    const active = this.#active;
    if (!active?.figures.tokens || active.exchange.answer.stoppedHere) return false;
    const paused = !active.exchange.answer.paused;
    if (!this.streams.pause(active.id, paused)) return false;
    active.steeredAt = performance.now();
    this.#setPaused(active, paused);
    this.announcer.say(paused ? 'Paused.' : 'The answer goes on.');
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
    this.conversation.forgetOldest(exchange, this.#hello.context_length);
    this.#askAgain(exchange, exchange.answer.seed, true);
  }

  edit(exchange = this.conversation.last) {
    const { composer, notice } = this;
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
    this.composer.cancelEdit();
    this.notice.hide();
  }

  newChat(text = '') {
    const { conversation, composer, notice } = this;
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

  #bringBack(exchanges) {
    this.#abandon();
    this.conversation.exchanges = exchanges;
    this.#changed();
    this.follow.start();
  }

  #reachable(advice) {
    const { connection, notice } = this;
    this.#offline = connection.state !== 'open';
    if (!this.#offline) return true;
    notice.show(`No connection to the server. ${advice}`, { tone: 'warn' });
    connection.retryNow();
    return false;
  }

  #askAgain(exchange, seed, mayForget = false) {
    const { notice, conversation } = this;
    if (this.busy || exchange !== conversation.last) return;
    if (!this.#reachable('Try again when it is back.')) return;
    this.cancelEdit();
    notice.hide();
    exchange.answer = newAnswer(seed);
    this.#transcript.view(exchange).restart();
    this.#transcript.update();
    this.follow.start();
    if (document.activeElement === document.body) byId('scroller').focus({ preventScroll: true });
    this.#ask(exchange, mayForget);
  }

  #ask(exchange, mayForget = this.settings.makeRoom) {
    const { streams, conversation, settings } = this;
    const options = settings.request(exchange.answer.seed);
    exchange.answer.seed = options.seed;
    const request = { messages: conversation.messagesFor(exchange, settings.system.trim()), ...options };
    if (this.#keep > 0) request.keep_ms = this.#keep;
    const active = { exchange, figures: new Figures(), mayForget };
    active.id = streams.start(request, this.#listener(active));
    if (active.id === null) this.#fail(active, 'cut', 'The connection to the server is lost. Nothing was sent.');
    else this.#begin(active);
  }

  /// An answer that was under way when the page was loaded again.
  #takeUp(exchange) {
    const { answer } = exchange;
    const active = { exchange, figures: new Figures(answer) };
    active.id = this.streams.resume(answer.key, answer.n, this.#listener(active));
    this.#begin(active);
    this.#setPaused(active, answer.paused);
  }

  #begin(active) {
    this.#active = active;
    active.timer = setInterval(() => this.#tick(active), kTick);
    this.announcer.begin();
    this.composer.setBusy('answering');
    document.body.classList.add('streaming');
    this.conversation.save();
  }

  #setPaused(active, paused) {
    active.exchange.answer.paused = paused;
    this.#transcript.view(active.exchange).setPaused(paused);
    this.#tick(active);
  }

  /// What the server says of it; another tab may have its hand on the same gate.
  #hearPaused(active, paused) {
    if (active.exchange.answer.paused === paused || performance.now() - active.steeredAt < kSettle) return;
    this.#setPaused(active, paused);
  }

  #listener(active) {
    const { exchange, figures } = active;
    const { answer } = exchange;
    const view = this.#transcript.view(exchange);
    return {
      accepted: (frame) => {
        answer.accepted = frame;
        answer.key = frame.stream;
        answer.n = frame.n;
        active.heartbeat = null;
        figures.heard();
        this.#tick(active);
        this.conversation.save();
      },
      heartbeat: (frame) => {
        active.heartbeat = frame;
        figures.heard();
        this.#hearPaused(active, frame.phase === 'paused');
        this.#tick(active);
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
        this.announcer.append(text);
        this.#hearPaused(active, false);
        if (figures.tokens === 1) this.#tick(active);
      },
      done: (frame) => {
        answer.status = 'done';
        answer.done = frame;
        answer.drawn = frame.usage?.completion_tokens ?? answer.drawn;
        this.#end(active);
        view.finish();
        const { before, code, after } = describeEnd(frame, answer.stoppedHere);
        this.announcer.end(`${before}${code}${after}. ${count(answer.drawn, 'token')}.`);
        this.#changed();
      },
      error: (frame) => this.#refused(active, frame),
      lost: () => this.#fail(active, 'cut', 'The connection broke before this answer was complete.'),
    };
  }

  #refused(active, { code, message }) {
    const { exchange } = active;
    if (this.#givesWay(active, code, message)) {
      this.#end(active);
      this.#transcript.update();
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

  /// True when the request can be made again with less: fewer turns, or without being kept.
  #givesWay({ exchange, mayForget }, code, message) {
    if (code === 'prompt_too_long') return mayForget && this.conversation.forgetOldest(exchange, this.#hello.context_length);
    if (code !== 'invalid_request' || !this.#keep || !message?.includes('keep_ms')) return false;
    this.#keep = 0;
    return true;
  }

  #fail(active, status, message) {
    const { exchange } = active;
    exchange.answer.status = status;
    exchange.answer.message = message;
    this.#end(active);
    this.#transcript.view(exchange).fail();
    this.announcer.end(message);
    this.#changed();
  }

  #end(active) {
    clearInterval(active.timer);
    this.#active = null;
    document.body.classList.remove('streaming');
    this.composer.setBusy('');
  }

  /// Leaves a running answer behind without waiting for its end.
  #abandon() {
    if (!this.busy) return;
    const active = this.#active;
    const { answer } = active.exchange;
    this.streams.forget(active.id);
    this.streams.cancel(active.id);
    answer.status = 'cut';
    answer.message = 'You left this answer before it was complete.';
    this.#end(active);
    this.#transcript.view(active.exchange).fail();
  }

  #changed() {
    this.#transcript.update();
    this.conversation.save();
    this.#drawContext();
  }

  #tick(active) {
    if (active !== this.#active) return;
    const { exchange, figures } = active;
    const view = this.#transcript.view(exchange);
    const idle = performance.now() - figures.heardAt;
    if (idle > kSilence && exchange.answer.key) {
      figures.heard();
      this.connection.renew();
    }
    const lost = this.connection.state !== 'open';
    let trouble = '';
    if (exchange.answer.stoppedHere) trouble = 'Stopping…';
    else if (lost) trouble = 'Connection lost. The answer goes on when it is back.';
    else if (idle > kSilence) trouble = `The server has been silent for ${Math.floor(idle / 1000)} s.`;
    if (figures.tokens > 0) view.live(figures, trouble, lost);
    else view.progress(...(trouble ? [trouble] : progressOf(active)));
    this.#drawContext();
  }

  /// Counts what the model was shown last and what it has drawn since.
  #drawContext() {
    const { exchanges } = this.conversation;
    const answer = exchanges.findLast((exchange) => exchange.answer.accepted !== null)?.answer;
    showContext(answer ? answer.accepted.prompt_tokens + answer.drawn : 0, this.#hello.context_length);
  }
}

function progressOf({ heartbeat, figures }) {
  const waited = performance.now() - figures.sentAt;
  const seconds = waited > kPatience ? ` · ${Math.floor(waited / 1000)} s` : '';
  switch (heartbeat?.phase) {
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
