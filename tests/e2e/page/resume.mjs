// Answers that outlive the page and its connection, in one tab and in two.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { connected, lastAnswer, say } from '../support/browser.mjs';
import { chat, chip, makeGate, press, shows, trouble } from '../support/page_steps.mjs';

const kText = 'Once upon a time there was.';
const kWords = kText.match(/\s*\S+/g);

/// One more word for each step of the gate, then the end.
const wordByWord = (gate) => async (stream) => {
  stream.accepted();
  for (const [i, word] of kWords.entries()) {
    stream.token(word);
    await gate.passed(i + 1);
  }
  stream.end();
};

const resumes = (server) => server.frames.filter(({ type }) => type === 'resume');
const words = (n) => kWords.slice(0, n).join('');

describe('an answer goes on', { concurrency: 3 }, () => {
  const reloads = makeGate();
  chat('after a reload, wherever it happens', { onGenerate: wordByWord(reloads) }, async (page, server) => {
    await say(page, 'Go');
    for (let n = 1; n < kWords.length; n++) {
      await shows(page, words(n));
      if (n % 2 === 0) reloads.open();  // the next word comes while the page is away
      await page.reload();
      if (n % 2 === 1) reloads.open();
    }
    await shows(page, kText);
    assert.equal(await page.locator('#stop').isVisible(), true);
    await page.goto('about:blank');  // the end comes while nobody looks
    reloads.open();
    await page.goBack();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(await page.locator('.figures').textContent(), `TTFT 4.2 ms381 tok/s${kWords.length} tokens`);
    assert.equal(server.requests.length, 1);
    assert.equal(server.requests[0].keep_ms, 30000);
    const asked = resumes(server).length;
    await page.reload();
    await chip(page).waitFor();
    await connected(page);
    assert.equal(resumes(server).length, asked, 'nothing is asked for once it has ended');
  });

  const losses = makeGate();
  chat('after the connection was lost, or has fallen silent', { onGenerate: wordByWord(losses) }, async (page, server) => {
    await say(page, 'Go');
    for (let n = 1; n < 4; n++) {
      await shows(page, words(n));
      server.refusing = n === 2;
      server.dropAll();
      losses.open();
      if (n === 2) {
        await page.locator('.figures').getByText('Connection lost. The answer goes on').waitFor();
        assert.equal(await trouble(page).count(), 0);
        server.refusing = false;
      }
      await page.locator('#connection').click({ timeout: 200 }).catch(() => { /* it is back already */ });
    }
    await shows(page, words(4));
    const before = resumes(server).length;
    await page.evaluate(() => {
      const now = performance.now.bind(performance);
      performance.now = () => now() + 30000;
    });
    while (resumes(server).length === before) await new Promise((resume) => { setTimeout(resume, 20); });
    for (const _ of kWords) losses.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(server.requests.length, 1);
  });

  const tabs = makeGate();
  chat('in two tabs at once, which also hear of what the other asks', { onGenerate: wordByWord(tabs) }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, words(1));
    const opened = page.waitForEvent('popup');
    await page.evaluate(() => window.open(location.href));
    const other = await opened;
    for (let n = 2; n <= kWords.length; n++) {
      await Promise.all([shows(page, words(n - 1)), shows(other, words(n - 1))]);
      tabs.open();
    }
    tabs.open();
    await Promise.all([chip(page).waitFor(), chip(other).waitFor()]);
    assert.equal(await lastAnswer(other).textContent(), kText);
    server.onGenerate = async (stream) => { stream.accepted(); await stream.tokens('From here.', { pace: 50 }); stream.end(); };
    await connected(other);
    await say(other, 'Again');
    await Promise.all([shows(page, 'From here.'), shows(other, 'From here.')]);
    await Promise.all([chip(page).waitFor(), chip(other).waitFor()]);
    assert.equal(server.requests.length, 2);
  });

  const stops = makeGate();
  chat('only to be stopped, when that was asked for without a connection', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Once');
      await stops.passed(1);
      stream.token(' upon');
      await stream.whenCancelled;
      stream.end();
    },
  }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, 'Once');
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    await page.keyboard.press('Escape');
    stops.open();
    server.refusing = false;
    await chip(page).waitFor();
    assert.equal(await chip(page).textContent(), 'Stopped by you');
    assert.equal(await lastAnswer(page).textContent(), 'Once upon');
  });
});

describe('an answer that can not go on', { concurrency: 3 }, () => {
  chat('is kept, marked as interrupted, and can be asked for again', { onGenerate: wordByWord(makeGate()) }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, words(1));
    server.kept.clear();
    await page.reload();
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /Interrupted: the server no longer has the rest/);
    assert.equal(await lastAnswer(page).textContent(), words(1));
    server.onGenerate = async (stream) => { stream.accepted(); stream.token(kText); stream.end(); };
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(server.requests[1].seed, server.requests[0].seed);
  });

  chat('says so where the server keeps no streams', { onGenerate: wordByWord(makeGate()), hello: { type: 'hello', model: 'm', context_length: 512, max_keep_ms: 0 } }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, words(1));
    assert.equal('keep_ms' in server.requests[0], false);
    server.dropAll();
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /The connection broke before this answer was complete/);
  });
});
