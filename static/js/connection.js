// One WebSocket to the server, made again whenever it is lost.
//
// Events: 'change' (state: connecting, open, waiting), 'hello' (detail: the frame),
// 'frame' (detail: any other frame), 'lost' (it was open and is not any more).

const kFirstDelay = 500;      // ms before the first new try
const kLongestDelay = 15000;
const kOpenDeadline = 10000;  // from connecting to the server's hello

export class Connection extends EventTarget {
  state = 'connecting';
  #url;
  #socket = null;
  #failures = 0;
  #timer = 0;

  constructor(url) {
    super();
    this.#url = url;
    addEventListener('online', () => this.retryNow());
    addEventListener('pageshow', () => this.retryNow());
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.retryNow(); });
  }

  open() {
    clearTimeout(this.#timer);
    this.#become('connecting');
    const socket = this.#socket = new WebSocket(this.#url, 'sluice.v1');
    this.#timer = setTimeout(() => this.#drop(socket), kOpenDeadline);
    socket.onmessage = (message) => { if (socket === this.#socket) this.#receive(message.data); };
    socket.onclose = () => this.#drop(socket);
  }

  /// Does not wait for the timer when a try is due later.
  retryNow() {
    if (this.state === 'waiting') this.open();
  }

  /// Gives up a connection that seems open but brings nothing.
  renew() {
    if (this.state === 'open') this.#drop(this.#socket);
  }

  /// False when there is no connection; nothing is queued.
  send(frame) {
    if (this.state !== 'open') return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  #receive(data) {
    let frame;
    try {
      frame = JSON.parse(data);
    } catch {
      return;
    }
    if (frame?.type === 'hello') {
      clearTimeout(this.#timer);
      this.#failures = 0;
      this.#become('open');
      this.dispatchEvent(new CustomEvent('hello', { detail: frame }));
    } else if (frame !== null && typeof frame === 'object') {
      this.dispatchEvent(new CustomEvent('frame', { detail: frame }));
    }
  }

  #drop(socket) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    socket.onmessage = socket.onclose = null;
    socket.close();
    const wasOpen = this.state === 'open';
    this.#retryLater();
    if (wasOpen) this.dispatchEvent(new Event('lost'));
  }

  /// Doubles with every failure; up to half is left to chance, so that many pages do not return
  /// at the same moment.
  #retryLater() {
    const longest = Math.min(kLongestDelay, kFirstDelay * 2 ** this.#failures++);
    const delay = longest * (0.5 + Math.random() / 2);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), delay);
    this.#become('waiting');
  }

  #become(state) {
    this.state = state;
    this.dispatchEvent(new Event('change'));
  }
}
