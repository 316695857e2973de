// The page in a real browser, against a server that does what each test wants: answers,
// conversations, the connection.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { connected, lastAnswer, say } from './support/browser.mjs';
import { kHello } from './support/mock_server.mjs';
import { chat, chip, makeGate, press, prompt, trouble, untilCancelled } from './support/page_steps.mjs';

describe('an answer', () => {
  const gate = makeGate();
  chat('grows token by token and shows why it ended', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Once');
      await gate.passed(1);
      stream.token(' upon');
      await gate.passed(2);
      stream.token(' a time.');
      stream.end();
    },
  }, async (page) => {
    await say(page, 'Tell me a story.');
    await lastAnswer(page).getByText('Once', { exact: true }).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Once');
    assert.equal(await page.locator('#stop').isVisible(), true);
    assert.equal(await chip(page).count(), 0);
    gate.open();
    await page.waitForFunction(() => document.querySelector('.text').textContent === 'Once upon');
    gate.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Once upon a time.');
    assert.equal(await chip(page).textContent(), 'Ended by <|im_end|>');
    assert.equal(await page.locator('.said').textContent(), 'Tell me a story.');
    assert.equal(await page.locator('.figures').textContent(), 'TTFT 4.2 ms381 tok/s3 tokens');
    assert.equal(await page.locator('#stop').isVisible(), false);
    assert.match(await page.locator('.tip').textContent(), /ends its turn.*Ruleend_token/);
  });

  for (const [way, stop] of [
    ['Esc', (page) => page.keyboard.press('Escape')],
    ['the button', (page) => page.locator('#stop').click()],
  ]) {
    chat(`is stopped by ${way}, with its last words`, { onGenerate: untilCancelled }, async (page, server) => {
      await say(page, 'Go on and on.');
      await lastAnswer(page).getByText('there was').waitFor();
      await stop(page);
      await chip(page).waitFor();
      assert.equal(await chip(page).textContent(), 'Stopped by you');
      assert.equal(await lastAnswer(page).textContent(), 'Once upon a time there was a gate.');
      assert.equal(server.frames.filter((frame) => frame.type === 'cancel').length, 1);
      assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    });
  }

  const kEnds = [
    [{ rule: 'stop_string', matched: 'Human:' }, 'Stop string “Human:”'],
    [{ rule: 'stop_string', matched: '\n\n' }, 'Stop string “⏎⏎”'],
    [{ rule: 'max_new_tokens', reason: 'length', usage: { completion_tokens: 200 } }, 'Reached 200 tokens'],
    [{ rule: 'context_full', reason: 'length' }, 'Context full'],
    [{ rule: 'low_confidence' }, 'Lost confidence'],
    [{ rule: 'repetition' }, 'Repeated itself'],
    [{ rule: 'time_limit' }, 'Time limit'],
    [{ rule: 'custom' }, 'Stopped by a rule'],
    [{ rule: 'cancelled', reason: 'cancelled', detail: 'cancelled by the client' }, 'Stopped in another tab'],
    [{ rule: 'cancelled', reason: 'cancelled', detail: 'the server is shutting down' }, 'Stopped by the server'],
    [{ rule: 'a_rule_of_tomorrow' }, 'Ended: a_rule_of_tomorrow'],
  ];
  chat('names every reason', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Text.');
      stream.end(kEnds[Number(stream.message)][0]);
    },
  }, async (page) => {
    for (const [index, [, label]] of kEnds.entries()) {
      await say(page, String(index));
      await chip(page).waitFor();
      assert.equal(await chip(page).textContent(), label);
    }
  });

  chat('shows the queue and the prefill before the first token', {
    onGenerate: async (stream) => {
      stream.heartbeat('queued', { queue_position: 4 });
      await waiting.passed(1);
      stream.accepted();
      stream.heartbeat('prefill', { prefill_done: 256, prefill_total: 900 });
      await waiting.passed(2);
      stream.token('Done.');
      stream.end();
    },
  }, async (page) => {
    await say(page, 'A long one');
    await page.locator('.progress').getByText('In the queue, 3 ahead of you').waitFor();
    waiting.open();
    await page.locator('.progress').getByText('Reading the prompt, 256 of 900 tokens').waitFor();
    assert.ok(await page.locator('.track').isVisible());
    waiting.open();
    await chip(page).waitFor();
    assert.equal(await page.locator('.progress').isVisible(), false);
  });
  const waiting = makeGate();

  const kHostile = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>\u202e</div> &amp; {{x}}';
  chat('and a message are text, whatever they hold', {
    hello: { ...kHello, model: kHostile },
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token(kHostile);
      if (stream.message === 'fail') stream.error('broken', kHostile);
      else stream.end({ rule: 'stop_string', matched: '<b>x</b>' });
    },
  }, async (page) => {
    await say(page, kHostile);
    await chip(page).waitFor();
    assert.equal(await page.locator('.said').textContent(), kHostile);
    assert.equal(await lastAnswer(page).textContent(), kHostile);
    assert.equal(await page.locator('#model-name').textContent(), kHostile);
    assert.equal(await chip(page).textContent(), 'Stop string “<b>x</b>”');
    await say(page, 'fail');
    await trouble(page).waitFor();
    assert.equal(await trouble(page).locator('p').textContent(), kHostile);
    assert.equal(await page.locator('main img, main script, main b:not(.figures b)').count(), 0);
    assert.equal(await page.evaluate(() => window.hurt), undefined);
  });

  const kSpaced = '  one\n\n\n    two\tthree  \n';
  const kLong = Array.from({ length: 6000 }, (_, i) => (i % 40 === 39 ? `line ${i}\n` : `word${i} `)).join('');
  chat('keeps its white space, and stays whole and light when it is long', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token(kSpaced);
      for (let i = 0; i < kLong.length; i += 7) stream.token(kLong.slice(i, i + 7));
      stream.end();
    },
  }, async (page) => {
    await say(page, 'Long');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kSpaced + kLong);
    assert.match(await lastAnswer(page).innerText(), /^ {2}one\n\n\n {4}two\tthree/);
    await page.waitForFunction(() => document.querySelectorAll('.fresh').length === 0);
    const nodes = await page.locator('.text *').count();
    assert.ok(nodes <= kLong.length / 1000, `${nodes} elements for ${kLong.length} characters`);
    assert.equal(await lastAnswer(page).textContent(), kSpaced + kLong);
  });

  chat('is read out in few pieces', {
    onGenerate: async (stream) => {
      stream.accepted();
      for (let i = 0; i < 300; i++) await stream.tokens(`Sentence ${i} ends.`, { pace: 1 });
      stream.end();
    },
  }, async (page) => {
    await page.evaluate(() => {
      window.spoken = 0;
      new MutationObserver((changes) => {
        for (const change of changes) window.spoken += change.addedNodes.length;
      }).observe(document.getElementById('announcer'), { childList: true });
    });
    await say(page, 'Speak');
    await chip(page).waitFor();
    const { spoken, seconds } = await page.evaluate(() => ({
      spoken: window.spoken, seconds: performance.now() / 1000,
    }));
    assert.ok(spoken >= 1 && spoken <= 2 + seconds / 3, `${spoken} announcements in ${seconds} s`);
    assert.match(await page.locator('#announcer').textContent(), /Ended by <\|im_end\|>/);
    assert.equal(await page.locator('#conversation[aria-live], #conversation [aria-live]').count(), 0);
  });
});

describe('a conversation', () => {
  chat('sends what was said before, and the system prompt first', {}, async (page, server) => {
    await page.locator('#open-settings').click();
    await page.locator('#set-system').fill('Be brief.');
    await page.keyboard.press('Escape');
    await say(page, 'First');
    await chip(page).waitFor();
    await say(page, 'Second');
    await page.getByText('You said: Second').first().waitFor();
    assert.deepEqual(server.requests[1].messages, [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'First' },
      { role: 'assistant', content: 'You said: First' },
      { role: 'user', content: 'Second' },
    ]);
  });

  chat('can be answered again with another seed, and edited', {}, async (page, server) => {
    await say(page, 'First');
    await chip(page).waitFor();
    await press(page, 'Regenerate');
    await page.waitForFunction(() => document.querySelector('.exchange.last .chip'));
    await prompt(page).fill('a draft');
    await page.getByRole('button', { name: 'Edit' }).click();
    assert.equal(await prompt(page).inputValue(), 'First');
    await say(page, 'Better');
    await page.locator('.said').getByText('Better').waitFor();
    await chip(page).waitFor();
    assert.equal(await page.locator('.exchange').count(), 1);
    assert.equal(await prompt(page).inputValue(), 'a draft');
    const [first, again, edited] = server.requests;
    assert.deepEqual(again.messages, first.messages);
    assert.notEqual(again.seed, first.seed);
    assert.deepEqual(edited.messages, [{ role: 'user', content: 'Better' }]);
  });

  chat('starts afresh, and can be brought back', { onGenerate: untilCancelled }, async (page, server) => {
    await say(page, 'Old');
    await lastAnswer(page).getByText('there was').waitFor();
    await page.locator('#new-chat').click();
    await page.locator('#welcome').waitFor();
    assert.equal(await page.locator('.exchange').count(), 0);
    assert.equal(server.frames.at(-1).type, 'cancel');
    await press(page, 'Bring it back');
    assert.equal(await page.locator('.said').textContent(), 'Old');
    await page.locator('#new-chat').click();
    await say(page, 'New');
    await lastAnswer(page).getByText('there was').waitFor();
    assert.deepEqual(server.requests.at(-1).messages, [{ role: 'user', content: 'New' }]);
  });

  chat('begins with a suggestion', {}, async (page, server) => {
    await page.getByRole('button', { name: 'Who are you?' }).click();
    await chip(page).waitFor();
    assert.equal(server.requests[0].messages[0].content, 'Who are you?');
  });

  const tooLong = (limit) => async (stream) => {
    if (stream.request.messages.length > limit) {
      stream.error('prompt_too_long', 'The prompt has 700 tokens; this model takes at most 511 and one of output.');
      return;
    }
    stream.accepted();
    await stream.tokens('An answer.');
    stream.end();
  };
  chat('that no longer fits says so and forgets its oldest turns when told', { onGenerate: tooLong(3) }, async (page, server) => {
    for (const text of ['One', 'Two', 'Three']) {
      await say(page, text);
      await page.locator('.exchange.last .said').getByText(text).waitFor();
      await page.locator('.exchange.last :is(.chip, .trouble)').waitFor();
    }
    assert.match(await trouble(page).textContent(), /no longer fits.*The prompt has 700 tokens/);
    await press(page, 'Forget the oldest turns and go on');
    await chip(page).waitFor();
    assert.deepEqual(server.requests.at(-1).messages.map(({ content }) => content), ['Two', 'An answer.', 'Three']);
    assert.equal(await page.locator('.forgotten').count(), 1);
    const line = await page.evaluate(() => getComputedStyle(document.querySelector('.forgotten + :not(.forgotten)'), '::before').content);
    assert.match(line, /no longer sees/);
  });

  chat('makes room by itself when that is set', { onGenerate: tooLong(1) }, async (page, server) => {
    await page.locator('#open-settings').click();
    await page.locator('#set-makeRoom').check();
    await page.keyboard.press('Escape');
    await say(page, 'One');
    await chip(page).waitFor();
    await say(page, 'Two');
    await page.locator('.forgotten').waitFor();
    await chip(page).waitFor();
    assert.deepEqual(server.requests.at(-1).messages, [{ role: 'user', content: 'Two' }]);
  });

  chat('whose one message is too long can start anew or be edited', { onGenerate: tooLong(0) }, async (page) => {
    await say(page, 'A very long message');
    await trouble(page).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Forget the oldest' }).count(), 0);
    await press(page, 'Start a new chat with this message');
    assert.equal(await prompt(page).inputValue(), 'A very long message');
    assert.equal(await page.locator('.exchange').count(), 0);
  });
});

describe('the connection', () => {
  chat('returns by itself; an answer that the server lost says so and is asked for again with its seed', {
    onGenerate: async (stream) => {
      stream.accepted();
      await stream.tokens('The first half');
      if (attempts++ === 0) stream.drop();
      else { await stream.tokens(' and the second.'); stream.end(); }
    },
  }, async (page, server) => {
    await prompt(page).fill('Go');
    await prompt(page).press('Enter');
    await prompt(page).fill('not sent yet');
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /Interrupted/);
    assert.equal(await lastAnswer(page).textContent(), 'The first half');
    await connected(page);
    assert.equal(await prompt(page).inputValue(), 'not sent yet');
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'The first half and the second.');
    assert.equal(server.requests[1].seed, server.requests[0].seed);
    assert.deepEqual(server.requests[1].messages, server.requests[0].messages);
  });
  let attempts = 0;

  chat('that is missing keeps the message, and says when it is back', {}, async (page, server) => {
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    await say(page, 'Do not lose me');
    await page.locator('#notice').getByText('No connection to the server').waitFor();
    assert.equal(await prompt(page).inputValue(), 'Do not lose me');
    await page.reload();
    assert.equal(await prompt(page).inputValue(), 'Do not lose me');
    server.refusing = false;
    await connected(page);
    await prompt(page).press('Enter');
    await chip(page).waitFor();
    assert.equal(await prompt(page).inputValue(), '');
    assert.equal(server.requests.length, 1);
  });

  chat('is tried again at growing, random intervals, and at once when the network returns', {}, async (page) => {
    const { delays, afterOnline, afterHello } = await page.evaluate(async () => {
      const sockets = [];
      const delays = [];
      const realWebSocket = window.WebSocket;
      const realTimeout = window.setTimeout;
      window.WebSocket = class { constructor() { sockets.push(this); } close() {} };
      window.setTimeout = (work, delay) => { if (delay !== 10000) delays.push(delay); return 0; };
      const { Connection } = await import('/js/connection.js');
      const connection = new Connection('ws://nowhere/');
      connection.open();
      for (let i = 0; i < 8; i++) {
        sockets.at(-1).onclose();
        if (i < 7) connection.open();
      }
      const before = sockets.length;
      window.dispatchEvent(new Event('online'));
      const afterOnline = sockets.length - before;
      sockets.at(-1).onmessage({ data: '{"type":"hello"}' });
      const afterHello = connection.state;
      sockets.at(-1).onclose();
      window.WebSocket = realWebSocket;
      window.setTimeout = realTimeout;
      return { delays, afterOnline, afterHello };
    });
    const longest = [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000, 500];
    assert.equal(delays.length, longest.length);
    longest.forEach((limit, i) => assert.ok(delays[i] >= limit / 2 && delays[i] <= limit, `${delays}`));
    assert.notEqual(delays[6], delays[7]);
    assert.equal(afterOnline, 1);
    assert.equal(afterHello, 'open');
  });

  chat('brings errors as sentences, in their place', {
    onGenerate: async (stream) => {
      if (refusals++ === 0) return stream.error('queue_full', 'The queue is full; try again in a moment.');
      stream.accepted();
      await stream.tokens('Now it works.');
      return stream.end();
    },
  }, async (page) => {
    await say(page, 'Hello');
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /The queue is full; try again in a moment\./);
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Now it works.');
    assert.equal(await trouble(page).count(), 0);
  });
  let refusals = 0;
});
