// OpenAI's own client, unmodified, against the real server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { startServer, untilMetric, whyNot } from './support/real_server.mjs';

const kStory = [{ role: 'user', content: 'Tell me a story about a cat and a boat.' }];

test('the official client talks to the server', { skip: whyNot }, async (t) => {
  const server = await startServer();
  t.after(async () => assert.equal(await server.stop(), 0));
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const model = (await client.models.list()).data[0].id;
  const greedy = { model, messages: kStory, temperature: 0, seed: 1, max_tokens: 40 };

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
