// A WebSocket client of docs/protocol.md that checks the order of every stream's events.

import assert from 'node:assert/strict';
import { WebSocket } from 'ws';

const kTerminal = new Set(['done', 'error']);

export class Client {
  hello = null;
  stray = [];      // errors without an id
  tokens = 0;      // received on all streams
  closed = null;   // the code, once closed
  #socket;
  #streams = new Map();
  #count = 0;
  #wake = [];

  static async open(url) {
    const client = new Client();
    client.#socket = new WebSocket(`${url.replace(/^http/, 'ws')}/v1/stream`, 'sluice.v1');
    client.#socket.on('message', (data, binary) => client.#receive(data, binary));
    client.#socket.on('close', (code) => { client.closed = code; client.#notify(); });
    client.#socket.on('error', () => {});
    await client.until(() => client.hello !== null || client.closed !== null);
    assert.equal(client.closed, null);
    return client;
  }

  generate(request) {
    const id = request.id ?? `c${++this.#count}`;
    const stream = { id, events: [], text: '', tokens: [], end: null };
    this.#streams.set(id, stream);
    this.send({ type: 'generate', id, ...request });
    return stream;
  }

  send(frame) {
    this.#socket.send(JSON.stringify(frame));
  }

  sendRaw(data, options) {
    this.#socket.send(data, options);
  }

  /// Waits for a condition that frames can bring about. Fails after a minute without any frame:
  /// what a test waits for will not come then.
  async until(condition) {
    while (!condition()) {
      let timer;
      const silence = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`silence while waiting for ${condition}`)), 60_000);
      });
      const frame = new Promise((resume) => this.#wake.push(resume));
      await Promise.race([frame, silence]).finally(() => clearTimeout(timer));
    }
  }

  async ended(stream) {
    await this.until(() => stream.end !== null || this.closed !== null);
    assert.notEqual(stream.end, null, `connection closed with ${this.closed}`);
    return stream;
  }

  /// Gone without a word, like a browser that was killed.
  kill() {
    this.#socket.terminate();
  }

  async close() {
    this.#socket.close();
    await this.until(() => this.closed !== null);
  }

  #receive(data, binary) {
    assert.equal(binary, false);
    const frame = JSON.parse(data);
    if (frame.type === 'hello') this.hello = frame;
    else if (frame.id === undefined) this.stray.push(frame);
    else this.#follow(frame);
    this.#notify();
  }

  #follow(frame) {
    const stream = this.#streams.get(frame.id);
    assert.ok(stream, `frame of an unknown stream: ${JSON.stringify(frame)}`);
    assert.equal(stream.end, null, `frame after the end: ${JSON.stringify(frame)}`);
    // A slow client gets several token events in one frame, with the number of the last.
    const before = stream.events.at(-1)?.n ?? 0;
    const follows = frame.type === 'heartbeat' ? frame.n >= before : frame.n > before;
    assert.ok(follows, `event ${frame.n} after event ${before}`);
    stream.events.push(frame);
    if (frame.type === 'token') {
      this.tokens += frame.tokens.length;
      stream.text += frame.text;
      stream.tokens.push(...frame.tokens.map(({ id, logprob }) => `${id}:${logprob}`));
      assert.equal(frame.tokens.map(({ text }) => text).join(''), frame.text);
    }
    if (kTerminal.has(frame.type)) stream.end = frame;
  }

  #notify() {
    this.#wake.splice(0).forEach((resume) => resume());
  }
}

/// Keeps `count` streams running on a connection of its own, so that others run at a pace that
/// can be watched. Returns a function that ends them.
export async function keepBusy(url, count) {
  const client = await Client.open(url);
  let going = true;
  const runs = Array.from({ length: count }, async (_, i) => {
    for (let round = 0; going; round++) {
      const stream = client.generate({ prompt: `${i} ${round}`, ignore_eos: true, seed: i });
      await client.until(() => stream.end !== null || client.closed !== null);
    }
  });
  await client.until(() => client.tokens > 0 || client.closed !== null);
  return async () => {
    going = false;
    client.kill();
    await Promise.all(runs);
  };
}
