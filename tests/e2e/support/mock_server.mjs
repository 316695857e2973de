// A stand-in for the server: serves static/ under the real Content-Security-Policy and speaks
// docs/protocol.md. A test decides what each stream does:
//
//   const server = await startMock({ onGenerate: async (stream) => {
//     stream.accepted();
//     await stream.tokens('One two', { pace: 20 });   // ms between tokens; stops when cancelled
//     stream.end();                                    // cancelled or end_token
//   }});

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { WebSocketServer } from 'ws';

const kStatic = fileURLToPath(new URL('../../../static/', import.meta.url));
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
  'parse_special', 'salt']);

export const kHello = {
  type: 'hello', protocol: 'sluice.v1', model: 'Sluice demo storyteller', context_length: 512,
  max_tokens_default: 512, sampling: { temperature: 0.7, top_p: 0.95, top_k: 0, min_p: 0 },
};

export async function startMock({ onGenerate = echo, hello = kHello, port = 0 } = {}) {
  const mock = { onGenerate, hello, requests: [], frames: [], paths: [] };
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
  /// Breaks every connection without a closing handshake.
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
  const file = join(kStatic, path.endsWith('/') ? `${path}index.html` : path);
  const headers = { 'Content-Security-Policy': kPolicy, 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-cache' };
  try {
    const body = await readFile(file);
    response.writeHead(200, { ...headers, 'Content-Type': kTypes[extname(file)] ?? 'application/octet-stream' });
    response.end(body);
  } catch {
    response.writeHead(404, { ...headers, 'Content-Type': 'text/plain' });
    response.end('Not found.\n');
  }
}

function converse(mock, ws) {
  const streams = new Map();
  ws.send(JSON.stringify(mock.hello));
  ws.on('message', (data) => {
    const frame = JSON.parse(data);
    mock.frames.push(frame);
    if (frame.type === 'generate') {
      mock.requests.push(frame);
      const unknown = Object.keys(frame).find((key) => !kOptions.has(key));
      const stream = new MockStream(mock, ws, frame, () => streams.delete(frame.id));
      streams.set(frame.id, stream);
      if (unknown) stream.error('unknown_field', `There is no field "${unknown}" in a generate frame.`);
      else mock.onGenerate(stream);
    } else if (frame.type === 'cancel') {
      streams.get(frame.id)?.cancel();
    }
  });
  ws.on('close', () => { for (const stream of streams.values()) stream.cancel(); });
}

class MockStream {
  cancelled = false;
  #mock; #ws; #ended; #n = 0; #drawn = 0; #id; #sentAt = performance.now();

  constructor(mock, ws, request, ended) {
    this.#mock = mock;
    this.#ws = ws;
    this.request = request;
    this.#id = request.id;
    this.#ended = ended;
    this.whenCancelled = new Promise((resolve) => { this.cancel = () => { this.cancelled = true; resolve(); }; });
  }

  get message() {
    return this.request.messages?.at(-1)?.content ?? this.request.prompt;
  }

  get promptTokens() {
    return Math.ceil(JSON.stringify(this.request.messages ?? this.request.prompt).length / 6);
  }

  accepted() {
    this.#send({ type: 'accepted', n: ++this.#n, model: this.#mock.hello.model, prompt_tokens: this.promptTokens, max_tokens: this.request.max_tokens ?? 512, context_length: this.#mock.hello.context_length, seed: this.request.seed ?? 1 });
  }

  heartbeat(phase, fields = {}) {
    this.#send({ type: 'heartbeat', n: this.#n, phase, queue_position: 0, prefill_done: 0, prefill_total: 0, ...fields });
  }

  token(text) {
    this.#drawn += 1;
    this.#send({ type: 'token', n: ++this.#n, text, tokens: [{ id: 100 + this.#drawn, text, logprob: -0.5 }] });
  }

  /// The text word by word, `pace` ms apart.
  async tokens(text, { pace = 0 } = {}) {
    for (const piece of text.match(/\s*\S+\s*$|\s*\S+/g) ?? []) {
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
    this.#send({
      type: 'done', n: ++this.#n, position: 0, ...normal,
      usage: { prompt_tokens: this.promptTokens, cached_tokens: 0, completion_tokens: this.#drawn },
      timing: { queued_ms: 0.1, ttft_ms: 4.2, total_ms: total, tokens_per_second: this.#drawn > 1 ? 381.2 : 0 },
      ...fields,
    });
    this.#ended();
  }

  error(code, message) {
    this.#send({ type: 'error', n: ++this.#n, code, message });
    this.#ended();
  }

  drop() {
    this.#ws.terminate();
  }

  #send(frame) {
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.send(JSON.stringify({ id: this.#id, ...frame }));
  }
}

async function echo(stream) {
  stream.accepted();
  await stream.tokens(`You said: ${stream.message}`);
  stream.end();
}
