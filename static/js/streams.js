// Streams over one connection, each with its own listener.

export class Streams {
  #connection;
  #listeners = new Map();
  #count = 0;
  /// Hears errors that name no stream.
  onstray = () => {};

  constructor(connection) {
    this.#connection = connection;
    connection.addEventListener('frame', (event) => this.#deliver(event.detail));
    connection.addEventListener('lost', () => this.#loseAll());
  }

  /// Returns the stream's id, or null without a connection. The listener's methods are named
  /// after the frames (accepted, heartbeat, token, done, error), and lost().
  start(request, listener) {
    const id = `s${++this.#count}`;
    if (!this.#connection.send({ type: 'generate', id, ...request })) return null;
    this.#listeners.set(id, listener);
    return id;
  }

  cancel(id) {
    this.#connection.send({ type: 'cancel', id });
  }

  /// Hears nothing more of this stream; its end is taken silently.
  forget(id) {
    if (this.#listeners.has(id)) this.#listeners.set(id, {});
  }

  #deliver(frame) {
    if (frame.id === undefined) {
      if (frame.type === 'error') this.onstray(frame);
      return;
    }
    const listener = this.#listeners.get(frame.id);
    if (frame.type === 'done' || frame.type === 'error') this.#listeners.delete(frame.id);
    listener?.[frame.type]?.(frame);
  }

  #loseAll() {
    const listeners = [...this.#listeners.values()];
    this.#listeners.clear();
    for (const listener of listeners) listener.lost?.();
  }
}
