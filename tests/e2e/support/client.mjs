// A WebSocket client of docs/protocol.md that checks the order of every stream's events.

import assert from 'node:assert/strict';
import { WebSocket } from 'ws';

const kTerminal = new Set(['done', 'error']);

export class Client {
  hello = null;
  stray = [];   // errors without an id
  closed = null;
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

  /// Waits for a condition that frames can bring about.
  async until(condition) {
    while (!condition()) await new Promise((resume) => this.#wake.push(resume));
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
    const before = stream.events.filter(({ type }) => type !== 'heartbeat').length;
    assert.equal(frame.n, frame.type === 'heartbeat' ? before : before + 1);
    stream.events.push(frame);
    if (frame.type === 'token') {
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
