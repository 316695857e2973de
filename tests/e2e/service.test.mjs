// The real server as a service: its log, its configuration, its end.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { WebSocket } from 'ws';
import { Client } from './support/client.mjs';
import { startServer, until, whyNot } from './support/real_server.mjs';

const kNewId = /^[A-Za-z0-9_-]{22}$/;
const kPrompt = { prompt: 'Once upon a time', max_tokens: 5 };

const post = (server, body, headers = {}) => fetch(`${server.url}/v1/completions`, {
  method: 'POST', body: JSON.stringify(body), headers });

test('the log', { skip: whyNot }, async (t) => {
  const server = await startServer('--log-format', 'json', '--log-level', 'trace');
  t.after(async () => assert.equal(await server.stop(), 0));
  const lines = () => server.output.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  const logged = async (wanted) => {
    await until(() => lines().some(wanted), `${wanted}`);
    return lines().find(wanted);
  };

  await t.test('names a request as its client does, when that is sane', async () => {
    const answer = await post(server, kPrompt, { 'X-Request-Id': 'proxy-7.a/b:c+d=e@f_g' });
    assert.equal(answer.headers.get('x-request-id'), 'proxy-7.a/b:c+d=e@f_g');
    await answer.text();
    const request = await logged(({ message, request_id: id }) => message === 'request' && id === 'proxy-7.a/b:c+d=e@f_g');
    assert.deepEqual([request.level, request.method, request.path, request.status], ['info', 'POST', '/v1/completions', 200]);
    assert.ok(request.bytes > 50 && request.duration_ms > 0);
    const stream = await logged(({ message, request_id: id }) => message === 'stream ended' && id === 'proxy-7.a/b:c+d=e@f_g');
    assert.deepEqual([stream.rule, stream.reason, stream.completion_tokens], ['max_new_tokens', 'length', 5]);
    assert.ok(stream.prompt_tokens > 2 && stream.total_ms >= stream.ttft_ms && stream.ttft_ms >= stream.queued_ms);
    for (const bad of ['two words', 'x'.repeat(129), '"quoted"', '{}']) {
      const other = await fetch(`${server.url}/v1/models?key=${bad}`, { headers: { 'X-Request-Id': bad } });
      assert.match(other.headers.get('x-request-id'), kNewId);
    }
  });

  await t.test('names what has no name, in errors too', async () => {
    const ids = new Set();
    for (const path of ['/v1/models', '/nothing', '/', '/health', '/v1/stream']) {
      const answer = await fetch(server.url + path);
      ids.add(answer.headers.get('x-request-id'));
      const line = await logged(({ request_id: id }) => id === answer.headers.get('x-request-id'));
      assert.equal(line.status, answer.status);
      assert.equal(line.level, path === '/health' ? 'debug' : 'info');
    }
    assert.equal(ids.size, 5);
    for (const id of ids) assert.match(id, kNewId);
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const error = await client.completions.create({ model: 'gpt-5', prompt: 'x' }).catch((thrown) => thrown);
    assert.match(error.requestID, kNewId);
    await logged(({ request_id: id, status }) => id === error.requestID && status === 404);
  });

  await t.test('names the streams of a WebSocket', async () => {
    const socket = new WebSocket(`${server.url.replace(/^http/, 'ws')}/v1/stream`, 'sluice.v1', { headers: { 'X-Request-Id': 'tab-1' } });
    const frames = [];
    socket.on('upgrade', ({ headers }) => frames.push(headers['x-request-id']));
    socket.on('message', (data) => frames.push(JSON.parse(data)));
    await until(() => frames.length === 2, 'hello');
    assert.equal(frames[0], 'tab-1');
    for (const id of ['a', 'b']) socket.send(JSON.stringify({ type: 'generate', id, ...kPrompt }));
    await until(() => frames.filter(({ type }) => type === 'done').length === 2, 'the ends');
    const names = frames.filter(({ type }) => type === 'accepted').map(({ request_id: id }) => id);
    assert.deepEqual(names.toSorted(), ['tab-1-1', 'tab-1-2']);
    for (const name of names) await logged(({ message, request_id: id }) => message === 'stream ended' && id === name);
    await logged(({ request_id: id, status }) => id === 'tab-1' && status === 101);
    socket.send(JSON.stringify({ type: 'generate', id: 'c', prompt: 'Once', ignore_eos: true }));
    await until(() => frames.some(({ id, type }) => id === 'c' && type === 'token'), 'a token');
    socket.terminate();
    await logged(({ request_id: id, rule }) => id === 'tab-1-3' && rule === 'cancelled');
  });

  await t.test('holds nothing of what is said, and no key', async () => {
    const secrets = ['sk-canary-1', 'canary-query-2', 'canary-prompt-3', 'canary-regex-4', 'canary-header-5'];
    const headers = { Authorization: 'Bearer sk-canary-1', Cookie: 'canary-header-5' };
    const answer = await (await post(server, { prompt: 'The canary-prompt-3 said', max_tokens: 30, ignore_eos: true }, headers)).json();
    await post(server, { prompt: 'x', stop_regex: '(canary-regex-4' }, headers);
    await post(server, { prompt: 'x', 'canary-prompt-3': 1 }, headers);
    await fetch(`${server.url}/v1/models?token=canary-query-2`, { headers });
    const client = await Client.open(server.url);
    await client.ended(client.generate({ messages: [{ role: 'user', content: 'canary-prompt-3' }], max_tokens: 3 }));
    client.sendRaw('{"type":"canary-prompt-3"');
    await client.until(() => client.stray.length === 1);
    await client.close();
    await fetch(`${server.url}/last`);
    await logged(({ path }) => path === '/last');
    for (const secret of [...secrets, answer.choices[0].text.trim().slice(0, 25)]) {
      assert.ok(secret.length > 8 && !server.output.includes(secret), `the log says "${secret}"`);
    }
  });

  await t.test('stays one object a line, whatever is asked for', async () => {
    await fetch(`${server.url}/%0a%22%7d%1b[31m%00`);
    await fetch(`${server.url}/%0a%22%7d%1b[31m${'x'.repeat(3000)}`);
    const line = await logged(({ path }) => path?.includes('\u001b[31m'));
    assert.ok(line.path.length <= 200);
    const odd = server.output.split('\n').slice(server.output.split('\n').findIndex((one) => one.startsWith('listening')) + 1)
      .filter((one) => one && !one.startsWith('{'));
    assert.deepEqual(odd, []);
  });
});

/// A stream that lasts until it is told to go on.
async function heldStream(server) {
  const client = await Client.open(server.url);
  const stream = client.generate({ id: 'held', prompt: 'Once', max_tokens: 200, ignore_eos: true, temperature: 0 });
  await client.until(() => stream.text !== '');
  client.send({ type: 'pause', id: 'held' });
  return { client, stream };
}

test('SIGTERM drains', { skip: whyNot }, async (t) => {
  const ready = async (server) => (await fetch(`${server.url}/ready`)).status;

  await t.test('no stream is taken, running ones end as they would', async () => {
    const server = await startServer('--drain-timeout', '20');
    const { client, stream } = await heldStream(server);
    assert.equal(await ready(server), 200);
    server.signal('SIGTERM');
    await until(async () => await ready(server) === 503, 'not ready');
    for (const path of ['/health', '/metrics', '/v1/plan']) assert.equal((await fetch(server.url + path)).status, 200, path);
    const refused = await post(server, kPrompt);
    assert.equal(refused.status, 503);
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    assert.equal((await refused.json()).error.code, 'shutting_down');
    const late = new WebSocket(`${server.url.replace(/^http/, 'ws')}/v1/stream`, 'sluice.v1');
    const response = await new Promise((done) => { late.on('unexpected-response', (_, answer) => done(answer)); late.on('error', () => {}); });
    assert.equal(response.statusCode, 503);
    assert.ok(Number(response.headers['retry-after']) >= 1);
    response.destroy();
    const second = await client.ended(client.generate(kPrompt));
    assert.deepEqual([second.end.type, second.end.code], ['error', 'shutting_down']);
    client.send({ type: 'unpause', id: 'held' });
    await client.ended(stream);
    assert.deepEqual([stream.end.type, stream.end.rule], ['done', 'max_new_tokens']);
    assert.equal(stream.end.usage.completion_tokens, 200);
    await client.until(() => client.closed !== null);
    assert.equal(client.closed, 1001);
    assert.equal(await server.ended, 0);
  });

  await t.test('what takes too long ends with the reason', async () => {
    const server = await startServer('--drain-timeout', '0.3');
    const { client, stream } = await heldStream(server);
    server.signal('SIGTERM');
    await client.ended(stream);
    assert.deepEqual([stream.end.type, stream.end.rule, stream.end.detail], ['done', 'cancelled', 'the server is shutting down']);
    assert.equal(await server.ended, 0);
  });

  await t.test('a second one ends it at once', async () => {
    const server = await startServer('--drain-timeout', '60');
    await heldStream(server);
    server.signal('SIGTERM');
    await until(async () => await ready(server) === 503, 'not ready');
    server.signal('SIGTERM');
    assert.equal(await Promise.race([server.ended, sleep(5000, 'still there', { ref: false })]), 130);
  });
});

test('SIGHUP reads the configuration again', { skip: whyNot }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'));
  const file = join(folder, 'sluice.toml');
  t.after(() => rmSync(folder, { recursive: true }));
  const write = (text) => writeFileSync(file, text);

  write('[serve]\nlog-level = "warn"\nmax-tokens-default = 7\n');
  const server = await startServer('--config', file);
  t.after(async () => assert.equal(await server.stop(), 0));
  const answer = await (await post(server, { prompt: 'Once', ignore_eos: true })).json();
  assert.equal(answer.usage.completion_tokens, 7, 'options come from the file');
  assert.ok(!server.output.includes('request_id='));

  write('[serve]\nlog-level = "debug"\nlog-format = "json"\ndrain-timeout = 0\n');
  server.signal('SIGHUP');
  await until(() => server.output.includes('have been read again'), 'a line of the log');
  await fetch(`${server.url}/health`);
  await until(() => /^\{.*"path":"\/health"/m.test(server.output), 'the new level and form');

  write('[serve]\nlog-level = "loud"\n');
  server.signal('SIGHUP');
  await until(() => /nothing is changed.*loud/i.test(server.output), 'what is wrong');
  assert.equal((await fetch(`${server.url}/health`)).status, 200);
  // Another level of the command line wins; the drain-timeout of the file is in force: no stream
  // is waited for.
  const { stream, client } = await heldStream(server);
  server.signal('SIGTERM');
  await client.ended(stream);
  assert.equal(stream.end.rule, 'cancelled');
});

test('a configuration with an option that does not exist is refused', { skip: whyNot }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'));
  const file = join(folder, 'sluice.toml');
  writeFileSync(file, '[serve]\nlog-leve = "warn"\n');
  await assert.rejects(startServer('--config', file), /log-leve/);
  rmSync(folder, { recursive: true });
});
