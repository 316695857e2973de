// Keys and TLS with real clients: a browser, node's own TLS, a WebSocket library; and nothing that
// is secret in the log.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { connected, lastAnswer, launchBrowser, openPage, say } from './support/browser.mjs';
import { startServer, whyNot } from './support/real_server.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sluice-security-'));
const files = { keys: join(folder, 'keys.txt'), cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

const newKey = (...options) => execFileSync(process.env.SLUICE_BIN, ['key', 'new', ...options, '--file', files.keys],
  { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

function newCertificate() {
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30',
    '-keyout', files.key, '-out', files.cert, '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
  { stdio: 'ignore' });
  return readFileSync(files.cert);
}

const bearer = (key) => ({ authorization: `Bearer ${key}` });

/// The frames of a WebSocket until it has closed, or until one is as wanted.
function frames(socket, wanted) {
  return new Promise((resolve, reject) => {
    const seen = [];
    socket.on('message', (data) => {
      seen.push(JSON.parse(data));
      if (wanted(seen.at(-1))) resolve(seen);
    });
    socket.on('unexpected-response', (_, { statusCode }) => reject(new Error(`status ${statusCode}`)));
    socket.on('error', reject);
    socket.on('close', (code) => reject(new Error(`closed with ${code}`)));
  });
}

test('keys', { skip: whyNot }, async (t) => {
  const alice = newKey('alice');
  const bob = newKey('bob', '--requests', '2/day', '--observe');
  assert.match(alice, /^sluice-[\w-]{43}$/);
  const stored = readFileSync(files.keys, 'utf8');
  assert.match(stored, /^alice sha256:[0-9a-f]{64}\nbob sha256:[0-9a-f]{64} requests=2\/day observe\n$/);
  assert.equal(statSync(files.keys).mode & 0o777, 0o600);
  const server = await startServer('--api-keys', files.keys, '--log-level', 'trace');
  const browser = await launchBrowser();
  t.after(async () => { await browser.close(); assert.equal(await server.stop(), 0); });
  const stream = `${server.url.replace('http', 'ws')}/v1/stream`;
  const wrong = `sluice-${'w'.repeat(43)}`;

  await t.test('over HTTP', async () => {
    const status = async (path, key) => (await fetch(server.url + path, { headers: key ? bearer(key) : {} })).status;
    assert.equal(await status('/v1/models'), 401);
    assert.equal(await status('/v1/models', wrong), 401);
    assert.equal(await status('/v1/models', alice), 200);
    assert.equal(await status('/metrics', alice), 403);
    assert.equal(await status('/metrics', bob), 200);
    assert.equal(await status('/health'), 200);
    const ask = () => fetch(`${server.url}/v1/completions`, { method: 'POST', headers: bearer(bob), body: '{"prompt":"Once","max_tokens":4}' });
    assert.equal((await ask()).status, 200);
    assert.equal((await ask()).status, 200);
    const refused = await ask();
    assert.equal(refused.status, 429);
    assert.ok(Number(refused.headers.get('retry-after')) > 40000, 'half a day, about');
    assert.equal((await refused.json()).error.code, 'rate_limit_exceeded');
  });

  await t.test('over a WebSocket', async () => {
    await assert.rejects(frames(new WebSocket(stream, 'sluice.v1'), () => true), /status 401/);
    const socket = new WebSocket(stream, ['sluice.v1', `sluice.key.${alice}`]);
    const end = frames(socket, ({ type }) => type === 'done');
    socket.on('open', () => socket.send(JSON.stringify({ type: 'generate', id: 'a', prompt: 'Once', max_tokens: 4 })));
    assert.equal((await end).at(-1).usage.completion_tokens, 4);
    assert.equal(socket.protocol, 'sluice.v1');
    socket.terminate();
    const page = new WebSocket(stream, ['sluice.v1', `sluice.key.${wrong}`], { origin: server.url });
    await assert.rejects(frames(page, () => true), /closed with 4401/);
  });

  await t.test('the page asks for one, and remembers it', async () => {
    const page = await openPage(browser, server.url, { settings: { markdown: false, temperature: 0, seed: 7 } });
    page.setDefaultTimeout(20000);
    await page.locator('#connection[data-state="locked"]').waitFor();
    assert.equal(await page.locator('#connection').textContent(), 'Enter a key');
    await page.locator('#connection').click();
    const field = page.getByLabel('Key', { exact: true });
    await field.fill(wrong);
    await field.press('Tab');
    await page.locator('#connection[data-state="locked"]').waitFor();
    await field.fill(` ${alice}\n`);
    await field.press('Tab');
    await connected(page);
    await page.keyboard.press('Escape');
    await say(page, 'Who are you?');
    await page.locator('.turn:last-child .chip').waitFor();
    assert.notEqual(await lastAnswer(page).textContent(), '');
    await page.reload();
    await connected(page);
    await page.keyboard.press('Alt+x');
    await page.locator('#plan dd').first().waitFor();
    await page.locator('#actors tr').first().waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  await t.test('a key taken away closes the page, and one added opens it', async () => {
    const page = await openPage(browser, server.url, { settings: { key: alice } });
    page.setDefaultTimeout(20000);
    await connected(page);
    const carol = newKey('carol');
    const lines = readFileSync(files.keys, 'utf8').split('\n');
    writeFileSync(files.keys, lines.filter((line) => !line.startsWith('alice')).join('\n'));
    assert.match(await server.reload(), /read again/);
    await page.locator('#connection[data-state="locked"]').waitFor();
    await page.locator('#connection').click();
    await page.getByLabel('Key', { exact: true }).fill(carol);
    await page.keyboard.press('Tab');
    await connected(page);
    assert.deepEqual(page.problems, []);
    await page.context().close();
    writeFileSync(files.keys, 'not a line of keys');
    assert.match(await server.reload(), /nothing is changed/);
    assert.equal((await fetch(`${server.url}/v1/models`, { headers: bearer(carol) })).status, 200);
  });

  await t.test('none is in the log', () => {
    assert.ok(server.output.includes('listening on'));
    for (const secret of [alice, bob, wrong]) {
      for (const part of [secret, secret.slice(0, 20), secret.slice(-20), Buffer.from(secret).toString('base64')]) {
        assert.ok(!server.output.includes(part), `the log has ${part}`);
      }
    }
    for (const digest of stored.match(/[0-9a-f]{64}/g)) assert.ok(!server.output.includes(digest));
  });
});

test('TLS', { skip: whyNot }, async (t) => {
  let ca = newCertificate();
  const server = await startServer('--tls-cert', files.cert, '--tls-key', files.key);
  const browser = await launchBrowser();
  t.after(async () => { await browser.close(); assert.equal(await server.stop(), 0); });
  assert.match(server.url, /^https:/);

  const get = (path, options = {}) => new Promise((resolve, reject) => {
    https.get(server.url + path, { ca, agent: false, ...options }, (response) => {
      let body = '';
      response.on('data', (data) => { body += data; }).on('end', () => resolve({ status: response.statusCode, body }));
    }).on('error', reject);
  });

  await t.test('programs', async () => {
    assert.deepEqual(await get('/health'), { status: 200, body: '{"status":"ok"}' });
    await assert.rejects(get('/health', { ca: undefined }), /self-signed/);
    await assert.rejects(get('/health', { maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }), /protocol|version/i);
    await assert.rejects(get('/health', { maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA:AES256-SHA' }), /handshake/i);
    const plain = await fetch(server.url.replace('https', 'http'));
    assert.equal(plain.status, 400);
    assert.equal((await plain.json()).error.code, 'tls_required');
  });

  await t.test('the page', async () => {
    const page = await openPage(browser, server.url, { settings: { markdown: false }, ignoreHTTPSErrors: true });
    page.setDefaultTimeout(20000);
    await connected(page);
    await say(page, 'Who are you?');
    await page.locator('.turn:last-child .chip').waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });

  await t.test('a new certificate is taken while a stream runs', async () => {
    const socket = new WebSocket(`${server.url.replace('https', 'wss')}/v1/stream`, 'sluice.v1', { ca });
    socket.on('open', () => socket.send(JSON.stringify({ type: 'generate', id: 'a', prompt: 'Once', ignore_eos: true, max_tokens: 400 })));
    await frames(socket, ({ type }) => type === 'token');
    const end = frames(socket, ({ type }) => type === 'done');
    const old = ca;
    ca = newCertificate();
    assert.match(await server.reload(), /read again/);
    assert.equal((await get('/health')).status, 200);
    await assert.rejects(get('/health', { ca: old }));
    assert.equal((await end).at(-1).usage.completion_tokens, 400);
    socket.terminate();
  });
});
