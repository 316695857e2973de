// Streams over connections that come and go, each with its own listener.
//
// A stream that the server keeps (`accepted` brought its key) outlives the connection: it is
// taken up on the next one, after the last event that was heard.

export class Streams {
  #connection;
  #streams = new Map();  // id -> {listener, key, heard, cancelled}
  #count = 0;
  /// Hears errors that name no stream.
  onstray = () => {};

  constructor(connection) {
    this.#connection = connection;
    connection.addEventListener('frame', (event) => this.#deliver(event.detail));
    connection.addEventListener('hello', () => this.#streams.forEach((stream, id) => this.#takeUp(id, stream)));
    connection.addEventListener('lost', () => this.#loseAll());
  }

  /// Returns the stream's id, or null without a connection. The listener's methods are named
  /// after the frames (accepted, heartbeat, token, done, error), and lost().
  start(request, listener) {
    const id = this.#newId();
    if (!this.#connection.send({ type: 'generate', id, ...request })) return null;
    this.#streams.set(id, { listener, key: null, heard: 0, cancelled: false });
    return id;
  }

  /// Takes up a stream that an earlier page began, now or when there is a connection.
  resume(key, heard, listener) {
    const id = this.#newId();
    this.#streams.set(id, { listener, key, heard, cancelled: false });
    this.#takeUp(id, this.#streams.get(id));
    return id;
  }

  cancel(id) {
    const stream = this.#streams.get(id);
    if (stream) stream.cancelled = true;
    this.#connection.send({ type: 'cancel', id });
  }

  /// False when there is no connection.
  pause(id, paused) {
    return this.#connection.send({ type: paused ? 'pause' : 'unpause', id });
  }

  /// Hears nothing more of this stream; its end is taken silently.
  forget(id) {
    const stream = this.#streams.get(id);
    if (stream) stream.listener = {};
  }

  #newId() {
    return `s${++this.#count}`;
  }

  #takeUp(id, { key, heard, cancelled }) {
    this.#connection.send({ type: 'resume', id, stream: key, after: heard });
    if (cancelled) this.#connection.send({ type: 'cancel', id });
  }

  #deliver(frame) {
    const { type, id, n } = frame;
    if (id === undefined) {
      if (type === 'error') this.onstray(frame);
      return;
    }
    const stream = this.#streams.get(id);
    if (!stream) return;
    if (type === 'done' || type === 'error') this.#streams.delete(id);
    if (type === 'accepted') stream.key = frame.stream ?? null;
    if (type === 'accepted' || type === 'token') {
      if (n <= stream.heard) return;
      stream.heard = n;
    }
    stream.listener[type]?.(frame);
  }

  #loseAll() {
    for (const [id, { key, listener }] of [...this.#streams]) {
      if (key) continue;
      this.#streams.delete(id);
      listener.lost?.();
    }
  }
}
