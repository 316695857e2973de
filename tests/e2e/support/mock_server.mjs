// A stand-in for the server: serves static/ under the real Content-Security-Policy and speaks
// docs/protocol.md. A test decides what each stream does:
//
//   const server = await startMock({ onGenerate: async (stream) => {
//     stream.accepted();
//     await stream.tokens('One two', { pace: 20 });   // ms between tokens; stops when cancelled
//     stream.end();                                    // cancelled or end_token
//   }});

import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { WebSocketServer } from 'ws';

const kStatic = fileURLToPath(new URL('../../../static/', import.meta.url));
/// The libraries of the page, as the build has fetched them; without, it shows plain text.
export const kVendor = process.env.SLUICE_VENDOR
  ?? fileURLToPath(new URL('../../../build/release/web/page_libraries/', import.meta.url));
const kTypes = {
  '.html': 'text/html; charset=utf-8', '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8', '.svg': 'image/svg+xml',
};
export const kPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
  + "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const kOptions = new Set(['type', 'id', 'messages', 'prompt', 'max_tokens', 'min_tokens',
  'temperature', 'top_k', 'top_p', 'min_p', 'repetition_penalty', 'presence_penalty',
  'frequency_penalty', 'seed', 'top_logprobs', 'stop', 'stop_token_ids', 'ignore_eos',
  'min_confidence', 'patience', 'repetition_ngram', 'repetition_times', 'time_limit_ms',
  'parse_special', 'salt', 'keep_ms']);

export const kHello = {
  type: 'hello', protocol: 'sluice.v1', model: 'Sluice demo storyteller', context_length: 512,
  max_tokens_default: 512, max_keep_ms: 300000, sampling: { temperature: 0.7, top_p: 0.95, top_k: 0, min_p: 0 },
};

const kPlan = {
  summary: 'llama, 6 layers, 2.8 M parameters, q8_0', backend: 'CPU, AVX-512, 2 threads', tokenizer: 'byte-level BPE',
  plan: { weights_bytes: 4e6, kv_pool_bytes: 9e7, num_blocks: 512, block_size: 16, scratch_bytes: 3e6, total_bytes: 97e6,
    limit_bytes: 4e9, sequences: 16, context: 512, binding: 'sequences' },
};

export async function startMock({ onGenerate = echo, hello = kHello, port = 0, vendor = kVendor } = {}) {
  const mock = { onGenerate, hello, vendor, stats: null, requests: [], frames: [], paths: [], kept: new Map(), options: new Set(kOptions) };
  const http = createServer((request, response) => serve(mock, request, response));
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => (offered.has('sluice.v1') ? 'sluice.v1' : false) });
  http.on('upgrade', (request, socket, head) => {
    if (mock.refusing || request.url !== '/v1/stream') {
      socket.end('HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n');
      return;
    }
    sockets.handleUpgrade(request, socket, head, (ws) => converse(mock, ws));
  });
  await new Promise((ready) => { http.listen(port, '127.0.0.1', ready); });
  mock.url = `http://127.0.0.1:${http.address().port}`;
  /// Breaks every connection without a closing handshake; kept streams go on.
  mock.dropAll = () => { for (const ws of sockets.clients) ws.terminate(); };
  /// While true, new WebSocket connections are refused.
  mock.refusing = false;
  mock.close = () => new Promise((closed) => {
    mock.dropAll();
    http.closeAllConnections();
    http.close(closed);
  });
  return mock;
}

async function serve(mock, request, response) {
  const path = normalize(new URL(request.url, 'http://mock').pathname);
  mock.paths.push(path);
  if (path === '/v1/plan') {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    return response.end(JSON.stringify(kPlan));
  }
  const file = path.startsWith('/vendor/') ? join(mock.vendor, path.slice('/vendor/'.length))
    : join(kStatic, path.endsWith('/') ? `${path}index.html` : path);
  const headers = { 'Content-Security-Policy': kPolicy, 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-cache' };
  try {
    const body = await readFile(file);
    response.writeHead(200, { ...headers, 'Content-Type': kTypes[extname(file)] ?? 'application/octet-stream' });
    return response.end(body);
  } catch {
    response.writeHead(404, { ...headers, 'Content-Type': 'text/plain' });
    return response.end('Not found.\n');
  }
}

function converse(mock, ws) {
  const streams = new Map();  // by the client's own ids
  let timer;
  const send = (frame) => ws.send(JSON.stringify(frame));
  send(mock.hello);
  ws.on('message', (data) => {
    const frame = JSON.parse(data);
    const { type, id } = frame;
    mock.frames.push(frame);
    const stream = streams.get(id);
    if (type === 'generate') {
      mock.requests.push(frame);
      const unknown = Object.keys(frame).find((key) => !mock.options.has(key));
      if (unknown) return send({ type: 'error', id, code: 'invalid_request', message: `There is no field "${unknown}" in a generate frame.` });
      streams.set(id, new MockStream(mock, frame));
      streams.get(id).attach(ws, id, 0);
      mock.onGenerate(streams.get(id));
    } else if (type === 'resume') {
      const kept = mock.kept.get(frame.stream);
      if (!kept) return send({ type: 'error', id, n: 1, code: 'unknown_stream', message: 'There is no stream with this key.' });
      streams.set(id, kept);
      kept.attach(ws, id, frame.after);
    } else if (type === 'cancel') stream?.cancel();
    else if (type === 'stats') {
      clearInterval(timer);
      const tell = () => mock.stats && send({ type: 'stats', ...mock.stats([...streams.keys()]) });
      if (frame.on) timer = setInterval(tell, 50);
    } else if (type === 'pause' || type === 'unpause') stream?.pause(type === 'pause');
    else send({ type: 'error', code: 'unknown_type', message: `There is no frame type "${type}".` });
    return undefined;
  });
  ws.on('close', () => {
    clearInterval(timer);
    for (const stream of streams.values()) stream.detach(ws);
  });
}

class MockStream {
  cancelled = false;
  key = null;
  #mock; #log = []; #viewers = new Map(); #drawn = 0; #sentAt = performance.now();
  #moving = Promise.resolve(); #move = null;

  constructor(mock, request) {
    this.#mock = mock;
    this.request = request;
    if (request.keep_ms > 0) {
      this.key = randomBytes(16).toString('base64url');
      mock.kept.set(this.key, this);
    }
    this.whenCancelled = new Promise((resolve) => {
      this.cancel = () => { this.cancelled = true; this.pause(false); resolve(); };
    });
  }

  get message() {
    return this.request.messages?.at(-1)?.content ?? this.request.prompt;
  }

  get promptTokens() {
    return Math.ceil(JSON.stringify(this.request.messages ?? this.request.prompt).length / 6);
  }

  get viewers() {
    return this.#viewers.size;
  }

  attach(ws, id, after) {
    for (const frame of this.#log) if (frame.n > after) ws.send(JSON.stringify({ ...frame, id }));
    this.#viewers.set(ws, id);
  }

  detach(ws) {
    this.#viewers.delete(ws);
    if (this.#viewers.size === 0 && !this.key) this.cancel();
  }

  pause(paused) {
    if (paused === (this.#move !== null)) return;
    if (paused) {
      this.#moving = new Promise((resolve) => { this.#move = resolve; });
      this.heartbeat('paused');
    } else {
      this.#move();
      this.#move = null;
    }
  }

  accepted() {
    this.#event({ type: 'accepted', model: this.#mock.hello.model, prompt_tokens: this.promptTokens, max_tokens: this.request.max_tokens ?? 512, context_length: this.#mock.hello.context_length, seed: this.request.seed ?? 1, ...(this.key && { stream: this.key }) });
  }

  heartbeat(phase, fields = {}) {
    this.#send({ type: 'heartbeat', n: this.#log.length, phase, queue_position: 0, prefill_done: 0, prefill_total: 0, ...fields });
  }

  token(text, fields = { logprob: -0.5 }) {
    this.#drawn += 1;
    this.#event({ type: 'token', text, tokens: [{ id: 100 + this.#drawn, text, ...fields }] });
  }

  /// The text word by word, `pace` ms apart; stands still while paused.
  async tokens(text, { pace = 0 } = {}) {
    for (const piece of text.match(/\s*\S+\s*$|\s*\S+/g) ?? []) {
      await this.#moving;
      if (this.cancelled) return;
      this.token(piece);
      if (pace > 0) await Promise.race([sleep(pace), this.whenCancelled]);
    }
  }

  end(fields = {}) {
    const normal = this.cancelled
      ? { reason: 'cancelled', rule: 'cancelled', matched: '', matched_token: -1, detail: 'by the client' }
      : { reason: 'stop', rule: 'end_token', matched: '<|im_end|>', matched_token: 2, detail: '' };
    const total = performance.now() - this.#sentAt;
    this.#event({
      type: 'done', position: 0, ...normal,
      usage: { prompt_tokens: this.promptTokens, cached_tokens: 0, completion_tokens: this.#drawn },
      timing: { queued_ms: 0.1, ttft_ms: 4.2, total_ms: total, tokens_per_second: this.#drawn > 1 ? 381.2 : 0 },
      ...fields,
    });
  }

  error(code, message) {
    this.#event({ type: 'error', code, message });
  }

  /// Breaks the connections, and forgets the stream as a server that starts again would.
  drop() {
    this.#mock.kept.delete(this.key);
    for (const ws of this.#viewers.keys()) ws.terminate();
  }

  #event(fields) {
    const frame = { ...fields, n: this.#log.length + 1 };
    this.#log.push(frame);
    this.#send(frame);
  }

  #send(frame) {
    for (const [ws, id] of this.#viewers) {
      if (ws.readyState === ws.OPEN) ws.send(JSON.stringify({ ...frame, id }));
    }
  }
}

async function echo(stream) {
  stream.accepted();
  await stream.tokens(`You said: ${stream.message}`);
  stream.end();
}
