// OpenAI's own client, unmodified, against the real server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { Client } from './support/client.mjs';
import { metric, startServer, until, untilMetric, whyNot } from './support/real_server.mjs';

const kStory = [{ role: 'user', content: 'Tell me a story about a cat and a boat.' }];

test('the official client talks to the server', { skip: whyNot }, async (t) => {
  const server = await startServer();
  t.after(async () => assert.equal(await server.stop(), 0));
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const model = (await client.models.list()).data[0].id;
  const greedy = { model, messages: kStory, temperature: 0, seed: 1, max_tokens: 40 };

  async function post(path, body) {
    const answer = await fetch(`${server.url}${path}`, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(answer.status, 200, path);
    return answer.json();
  }

  async function joined(stream) {
    const answers = [];
    let usage = null;
    for await (const chunk of stream) {
      usage = chunk.usage ?? usage;
      for (const choice of chunk.choices) {
        const answer = (answers[choice.index] ??= { text: '', finish: null, logprobs: [] });
        answer.text += choice.delta?.content ?? choice.text ?? '';
        answer.finish = choice.finish_reason ?? answer.finish;
        answer.logprobs.push(...(choice.logprobs?.content ?? []));
      }
    }
    return { answers, usage };
  }

  await t.test('whole and streamed answers agree', async () => {
    const whole = await client.chat.completions.create(greedy);
    assert.equal(whole.object, 'chat.completion');
    assert.equal(whole.choices[0].message.role, 'assistant');
    assert.ok(whole.choices[0].message.content.length > 20);
    assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
    const { answers, usage } = await joined(await client.chat.completions.create(
      { ...greedy, stream: true, stream_options: { include_usage: true } }));
    assert.equal(answers[0].text, whole.choices[0].message.content);
    assert.equal(answers[0].finish, whole.choices[0].finish_reason);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
    assert.ok(usage.prompt_tokens_details.cached_tokens > 0);  // the second time
  });

  await t.test('the stream helper of the client', async () => {
    const stream = client.chat.completions.stream(greedy);
    let text = '';
    stream.on('content', (delta) => { text += delta; });
    const whole = await stream.finalChatCompletion();
    assert.equal(whole.choices[0].message.content, text);
  });

  await t.test('logprobs', async () => {
    const whole = await client.chat.completions.create({ ...greedy, logprobs: true, top_logprobs: 3, max_tokens: 8 });
    const tokens = whole.choices[0].logprobs.content;
    assert.equal(tokens.length, 8);
    assert.equal(tokens.map((token) => token.token).join(''), whole.choices[0].message.content);
    for (const token of tokens) {
      assert.equal(token.top_logprobs.length, 3);
      assert.equal(token.logprob, token.top_logprobs[0].logprob);  // greedy
      assert.equal(Buffer.from(token.bytes).toString(), token.token);
    }
    const streamed = await joined(await client.chat.completions.create(
      { ...greedy, logprobs: true, top_logprobs: 3, max_tokens: 8, stream: true }));
    assert.deepEqual(streamed.answers[0].logprobs, tokens);
  });

  await t.test('three answers to one prompt', async () => {
    const request = { ...greedy, temperature: 1, n: 3 };
    const whole = await client.chat.completions.create(request);
    assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2]);
    const texts = whole.choices.map((choice) => choice.message.content);
    assert.equal(new Set(texts).size, 3);
    const { answers } = await joined(await client.chat.completions.create({ ...request, stream: true }));
    assert.deepEqual(answers.map((answer) => answer.text), texts);
    const second = await client.chat.completions.create({ ...request, n: 1, seed: 2 });
    assert.equal(second.choices[0].message.content, texts[1]);
  });

  await t.test('stop strings, logit bias, old completions', async () => {
    const plain = (await client.chat.completions.create(greedy)).choices[0].message.content;
    const word = plain.split(' ')[5];
    const stopped = await client.chat.completions.create({ ...greedy, stop: [` ${word}`] });
    assert.equal(stopped.choices[0].finish_reason, 'stop');
    assert.equal(stopped.choices[0].message.content, plain.slice(0, plain.indexOf(` ${word}`)));
    const old = await client.completions.create(
      { model, prompt: ['Once upon', 'The dog'], max_tokens: 5, temperature: 0, logprobs: 2, logit_bias: { 5: -100 } });
    assert.equal(old.choices.length, 2);
    assert.equal(old.choices[0].logprobs.tokens.join(''), old.choices[0].text);
    assert.equal(old.choices[0].finish_reason, 'length');
  });

  await t.test('a bias forbids a token or wants it', async () => {
    const one = { ...greedy, max_tokens: 1, logprobs: true, top_logprobs: 2 };
    const first = async (bias) => (await client.chat.completions.create({ ...one, logit_bias: bias })).choices[0].logprobs.content[0];
    const ids = async (prompt) => (await post('/tokenize', { prompt, add_special_tokens: false })).tokens;
    const plain = await first({});
    const [likeliest, second] = plain.top_logprobs.map(({ token }) => token);
    assert.equal(plain.token, likeliest);
    assert.equal((await first({ [(await ids(likeliest))[0]]: -100 })).token, second);
    const [wanted] = await ids(' boat');
    assert.equal((await first({ [wanted]: 100 })).token, (await post('/detokenize', { tokens: [wanted] })).prompt);
  });

  await t.test('minimum, maximum, penalties and the deadline', async () => {
    const short = { ...greedy, stop: ['Once', ' '], max_tokens: 20 };
    assert.ok((await client.chat.completions.create(short)).usage.completion_tokens < 5);
    const held = await client.chat.completions.create({ ...short, min_tokens: 9 });
    assert.ok(held.usage.completion_tokens >= 9);
    const counted = await client.chat.completions.create({ ...greedy, max_tokens: undefined, max_completion_tokens: 7, ignore_eos: true });
    assert.deepEqual([counted.usage.completion_tokens, counted.choices[0].finish_reason], [7, 'length']);
    const plain = await client.chat.completions.create({ ...greedy, max_tokens: 120, ignore_eos: true });
    for (const penalty of [{ presence_penalty: 2 }, { frequency_penalty: 2 }, { repetition_penalty: 1.5 }]) {
      const other = await client.chat.completions.create({ ...greedy, max_tokens: 120, ignore_eos: true, ...penalty });
      assert.notEqual(other.choices[0].message.content, plain.choices[0].message.content, Object.keys(penalty)[0]);
    }
    const late = await client.chat.completions.create({ ...greedy, max_tokens: 450, ignore_eos: true, time_limit_ms: 1 });
    assert.equal(late.choices[0].stop_rule, 'time_limit');
    assert.ok(late.usage.completion_tokens < 450);
  });

  await t.test('who has another salt shares nothing', async () => {
    const messages = [{ role: 'user', content: `A secret that only one knows. ${'It is long. '.repeat(12)}` }];
    const cached = async (salt) => (await client.chat.completions.create({ ...greedy, messages, max_tokens: 2, salt }))
      .usage.prompt_tokens_details.cached_tokens;
    assert.equal(await cached('a'), 0);
    assert.ok(await cached('a') > 0);
    assert.equal(await cached('b'), 0);
    assert.ok(await cached('b') > 0);
  });

  await t.test('texts, tokens and the plan', async () => {
    const text = 'Once upon a time, ein Schiff \u00fcber \u4f60\u597d \ud83d\ude80.';
    const { tokens, count, max_model_len: longest } = await post('/tokenize', { prompt: text, add_special_tokens: false });
    assert.equal(tokens.length, count);
    assert.equal((await post('/detokenize', { tokens })).prompt, text);
    assert.deepEqual(await post('/v1/tokenize', { prompt: text, add_special_tokens: false }), { tokens, count, max_model_len: longest });
    const chat = await post('/tokenize', { messages: kStory });
    assert.equal(chat.count, (await client.chat.completions.create({ ...greedy, max_tokens: 1 })).usage.prompt_tokens);
    const plan = await (await fetch(`${server.url}/v1/plan`)).json();
    assert.equal(plan.model, model);
    assert.equal(plan.context_length, longest);
    assert.equal(plan.stop_policy.order[0], 'max_new_tokens');
    const { plan: sizes } = plan;
    assert.equal(sizes.total_bytes, sizes.weights_bytes + sizes.scratch_bytes + sizes.kv_pool_bytes);
    assert.equal(await metric(server, 'sluice_kv_blocks'), sizes.num_blocks);
  });

  await t.test('an abort ends the stream at once', async () => {
    const stream = await client.chat.completions.create(
      { ...greedy, max_tokens: 400, stream: true, ignore_eos: true });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) break;  // the client aborts when the loop is left
    }
    await untilMetric(server, 'sluice_sequences_running', 0);
  });

  await t.test('a time-out of the client ends the request', async () => {
    const calls = Array.from({ length: 16 }, () => client.chat.completions.create(
      { ...greedy, max_tokens: 450, ignore_eos: true, n: 4 }, { timeout: 20 }));
    const ends = await Promise.allSettled(calls);
    assert.ok(ends.some((end) => end.reason instanceof OpenAI.APIConnectionTimeoutError));
    await untilMetric(server, 'sluice_sequences_running', 0);
    await untilMetric(server, 'sluice_sequences_waiting', 0);
  });

  await t.test('errors name what is wrong', async () => {
    const rejects = (request, type, check) => assert.rejects(client.chat.completions.create(request), (error) => {
      assert.ok(error instanceof type, `${error}`);
      return check(error) ?? true;
    });
    await rejects({ ...greedy, temperature: 99 }, OpenAI.BadRequestError, (error) => {
      assert.equal(error.param, 'temperature');
      assert.equal(error.type, 'invalid_request_error');
    });
    await rejects({ ...greedy, response_format: { type: 'json_object' } }, OpenAI.BadRequestError,
      (error) => assert.equal(error.param, 'response_format'));
    await rejects({ ...greedy, model: 'gpt-5' }, OpenAI.NotFoundError, (error) => assert.equal(error.code, 'model_not_found'));
    const long = [{ role: 'user', content: 'cat '.repeat(5000) }];
    for (const stream of [false, true]) {
      await rejects({ ...greedy, messages: long, stream }, OpenAI.BadRequestError,
        (error) => assert.equal(error.code, 'context_length_exceeded'));
    }
  });
});

test('a full server', { skip: whyNot }, async (t) => {
  const server = await startServer('--max-running', '1', '--max-queue', '2');
  t.after(async () => assert.equal(await server.stop(), 0));
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const model = (await client.models.list()).data[0].id;
  const request = { model, prompt: 'Once upon a time', temperature: 0, ignore_eos: true };

  /// Takes the one place and keeps it until the returned function is called.
  async function occupy() {
    const holder = await Client.open(server.url);
    const stream = holder.generate({ id: 'holder', prompt: 'Once', ignore_eos: true });
    await holder.until(() => stream.text !== '');
    holder.send({ type: 'pause', id: 'holder' });
    return async () => {
      holder.send({ type: 'cancel', id: 'holder' });
      await holder.ended(stream);
      await holder.close();
    };
  }

  await t.test('lets the more urgent go first', async () => {
    const release = await occupy();
    const order = [];
    const low = client.completions.create({ ...request, max_tokens: 30, priority: -5 }).then(() => order.push('low'));
    await untilMetric(server, 'sluice_sequences_waiting', 1);
    const high = client.completions.create({ ...request, max_tokens: 30, priority: 5 }).then(() => order.push('high'));
    await untilMetric(server, 'sluice_sequences_waiting', 2);
    await release();
    await Promise.all([low, high]);
    assert.deepEqual(order, ['high', 'low']);
  });

  await t.test('says when to come back', async () => {
    const release = await occupy();
    const calls = Array.from({ length: 8 }, () => client.completions.create({ ...request, max_tokens: 3 }));
    const refusals = [];
    for (const call of calls) call.catch((error) => refusals.push(error));
    await until(() => refusals.length === 6);
    for (const refused of refusals) {
      assert.ok(refused instanceof OpenAI.RateLimitError, `${refused}`);
      assert.equal(refused.status, 429);
      assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    }
    await release();
    const ends = await Promise.allSettled(calls);
    assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, 2);
  });
});
