// Every frame of the server, and every frame that is sent to it, against docs/protocol.schema.json.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import WebSocket from 'ws';
import { startServer, whyNot } from './support/real_server.mjs';

const schema = JSON.parse(await readFile(new URL('../../docs/protocol.schema.json', import.meta.url)));
const ajv = new Ajv({ allErrors: true });
ajv.addSchema(schema, 'protocol');
const validate = {
  client: ajv.getSchema('protocol#/$defs/client'),
  server: ajv.getSchema('protocol#/$defs/server'),
};

function check(side, frame) {
  assert.ok(validate[side](frame), `${JSON.stringify(frame)}: ${ajv.errorsText(validate[side].errors)}`);
}

test('frames follow the schema', { skip: whyNot }, async (t) => {
  const server = await startServer();
  t.after(async () => assert.equal(await server.stop(), 0));
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/stream`, 'sluice.v1');
  const seen = {};
  const waiting = new Map();
  socket.on('message', (data) => {
    const frame = JSON.parse(data);
    seen[frame.type] = (seen[frame.type] ?? 0) + 1;
    try {
      check('server', frame);
    } catch (error) {
      for (const { reject } of waiting.values()) reject(error);
      return;
    }
    if (frame.type === 'done' || frame.type === 'error') {
      waiting.get(frame.id)?.resolve(frame);
      waiting.delete(frame.id);
    }
  });
  await new Promise((resolve) => { socket.on('open', resolve); });
  const ended = (id) => new Promise((resolve, reject) => { waiting.set(id, { resolve, reject }); });
  const say = (frame) => { check('client', frame); socket.send(JSON.stringify(frame)); };

  say({ type: 'stats' });
  const ends = [];
  const generate = (id, frame) => { ends.push(ended(id)); say({ type: 'generate', id, ...frame }); };
  const messages = [{ role: 'user', content: 'Tell me a story.' }];
  generate('chat', { messages, seed: '18446744073709551615', top_logprobs: 3, keep_ms: 5000 });
  generate('stops', { prompt: 'Once upon a time', temperature: 0, max_tokens: 60, stop_regex: 'w[a-z]s',
    stop: [{ text: '\nHuman:', boundary: 'line_start' }, ' zebra'] });
  generate('long', { prompt: 'One day', max_tokens: 400, ignore_eos: true, time_limit_ms: 3000 });
  say({ type: 'change', id: 'long', temperature: 0.5, stop: ['!'] });
  say({ type: 'pause', id: 'long' });
  say({ type: 'unpause', id: 'long' });
  generate('cancelled', { prompt: 'One day', ignore_eos: true });
  say({ type: 'cancel', id: 'cancelled' });
  generate('too long', { prompt: 'cat '.repeat(3000) });
  ends.push(ended('nowhere'));
  say({ type: 'resume', id: 'nowhere', stream: 'AAAAAAAAAAAAAAAAAAAAAA', after: 3 });
  const frames = await Promise.all(ends);
  assert.equal(frames.at(-1).code, 'unknown_stream');
  assert.equal(frames.at(-2).code, 'prompt_too_long');
  socket.send('not json');
  socket.send('{"type":"generate","id":"x","prompt":"x","nonsense":1}');
  while ((seen.error ?? 0) < 4) await new Promise((resolve) => { setTimeout(resolve, 5); });
  assert.equal(seen.hello, 1);
  while (!seen.stats) await new Promise((resolve) => { setTimeout(resolve, 5); });
  say({ type: 'stats', on: false });
  assert.ok(seen.accepted >= 4 && seen.token > 20);
  socket.close();

  // The schema can say no.
  for (const bad of [{ type: 'cancel' }, { type: 'generate', id: 'x' }, { type: 'generate', id: 'x', prompt: 'x', messages },
    { type: 'generate', id: 'x', prompt: 'x', temperature: 11 }, { type: 'pause', id: '' }, { type: 'dance', id: 'x' }]) {
    assert.equal(validate.client(bad), false, JSON.stringify(bad));
  }
});
