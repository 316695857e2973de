// Starts the real server for a test: $SLUICE_BIN serve --model $SLUICE_MODEL --port 0, with the
// page in the binary, or the one in $SLUICE_STATIC.

import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

const { SLUICE_BIN, SLUICE_MODEL, SLUICE_STATIC } = process.env;
const kPage = SLUICE_STATIC ? ['--static-dir', SLUICE_STATIC] : [];

/// Why the tests of the real server can't run here, or false.
export const whyNot = SLUICE_BIN && SLUICE_MODEL ? false
  : 'set SLUICE_BIN to the sluice binary and SLUICE_MODEL to a GGUF file';

const kStartDeadline = 60000;  // ms

export async function startServer(...options) {
  const child = spawn(SLUICE_BIN, ['serve', '--model', SLUICE_MODEL, '--port', '0', ...kPage, ...options],
    { stdio: ['ignore', 'pipe', 'pipe'] });
  const server = { output: '', url: '', exit: null };
  server.ended = new Promise((resolve) => {
    child.on('error', (error) => { server.exit = `${error.message}`; resolve(server.exit); });
    child.on('exit', (code, signal) => { server.exit ??= signal ?? code; resolve(server.exit); });
  });
  for (const pipe of [child.stdout, child.stderr]) {
    pipe.setEncoding('utf8').on('data', (text) => { server.output += text; });
  }
  server.signal = (name) => child.kill(name);
  /// Ends the server as a service manager would; the exit code.
  server.stop = async () => {
    child.kill('SIGTERM');
    const exit = await Promise.race([server.ended, sleep(20000, 'still running 20 s after SIGTERM', { ref: false })]);
    if (server.exit === null) child.kill('SIGKILL');
    return exit;
  };
  /// Makes it read its files again; resolves when it has said so, with what it said.
  server.reload = async () => {
    const before = server.output.length;
    child.kill('SIGHUP');
    for (let i = 0; i < 500 && !server.output.slice(before).includes('SIGHUP'); i++) await sleep(20);
    return server.output.slice(before);
  };
  const deadline = Date.now() + kStartDeadline;
  while (!server.url) {
    server.url = server.output.match(/listening on (https?:\/\/\S+)/)?.[1].replace(/\/$/, '') ?? '';
    if (server.exit !== null) throw new Error(`The server ended (${server.exit}): ${server.output}`);
    if (Date.now() > deadline) throw new Error(`The server did not start: ${server.output}`);
    await sleep(20);
  }
  return server;
}

/// Waits for a condition, which may be asynchronous; fails after ten seconds.
export async function until(condition, what = `${condition}`) {
  for (const deadline = Date.now() + 10000; !await condition(); await sleep(10)) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
  }
}

/// The value of one metric without labels, or NaN.
export async function metric(server, name) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  return Number(text.match(new RegExp(`^${name} (\\S+)$`, 'm'))?.[1]);
}

/// Waits until a metric has a value; fails with what it has instead.
export async function untilMetric(server, name, wanted, { within = 10000 } = {}) {
  const deadline = Date.now() + within;
  for (;;) {
    const value = await metric(server, name);
    if (value === wanted) return;
    if (Date.now() > deadline) throw new Error(`${name} is ${value} and not ${wanted} after ${within} ms`);
    await sleep(10);
  }
}
