// Answers that outlive the page and its connection, and answers that stand still for a while.

import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { connected, lastAnswer, say } from './support/browser.mjs';
import { chat, chip, makeGate, press, trouble } from './support/page_steps.mjs';

const kText = 'Once upon a time there was a gate.';
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

const shows = (page, text) => page.waitForFunction(
  (wanted) => document.querySelector('.exchange.last .text')?.textContent === wanted, text);
const resumes = (server) => server.frames.filter(({ type }) => type === 'resume');
const words = (n) => kWords.slice(0, n).join('');

describe('an answer goes on', () => {
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
    reloads.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(await page.locator('.figures').textContent(), 'TTFT 4.2 ms381 tok/s8 tokens');
    assert.equal(resumes(server).length, kWords.length - 1);
    assert.equal(server.requests.length, 1);
    assert.equal(server.requests[0].keep_ms, 30000);
    await page.reload();
    await chip(page).waitFor();
    assert.equal(resumes(server).length, kWords.length - 1, 'nothing is asked for once it has ended');
  });

  const losses = makeGate();
  chat('after the connection was lost', { onGenerate: wordByWord(losses) }, async (page, server) => {
    await say(page, 'Go');
    for (let n = 1; n < kWords.length; n++) {
      await shows(page, words(n));
      server.refusing = n === 3;
      server.dropAll();
      losses.open();
      if (n === 3) {
        await page.locator('.figures').getByText('Connection lost. The answer goes on').waitFor();
        assert.equal(await trouble(page).count(), 0);
        server.refusing = false;
      }
      await page.locator('#connection').click({ timeout: 200 }).catch(() => { /* it is back already */ });
    }
    await shows(page, kText);
    losses.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(await chip(page).textContent(), 'Ended by <|im_end|>');
  });

  const silence = makeGate();
  chat('on another connection, when this one has fallen silent', { onGenerate: wordByWord(silence) }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, words(1));
    await page.evaluate(() => {
      const now = performance.now.bind(performance);
      performance.now = () => now() + 30000;
    });
    while (resumes(server).length === 0) await new Promise((resume) => { setTimeout(resume, 20); });
    for (const _ of kWords) silence.open();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(server.requests.length, 1);
  });

  const ends = makeGate();
  chat('to its end, even when that came while the page was away', { onGenerate: wordByWord(ends) }, async (page) => {
    await say(page, 'Go');
    await shows(page, words(1));
    await page.goto('about:blank');
    for (const _ of kWords) ends.open();
    await page.goBack();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
  });

  const tabs = makeGate();
  chat('in a duplicated tab as well', { onGenerate: wordByWord(tabs) }, async (page) => {
    await say(page, 'Go');
    await shows(page, words(1));
    await page.evaluate(() => dispatchEvent(new Event('pagehide')));  // keeps what is there
    const opened = page.waitForEvent('popup');
    await page.evaluate(() => window.open(location.href));
    const other = await opened;
    for (let n = 2; n <= kWords.length; n++) {
      await Promise.all([shows(page, words(n - 1)), shows(other, words(n - 1))]);
      tabs.open();
    }
    tabs.open();
    await Promise.all([chip(page).waitFor(), chip(other).waitFor()]);
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(await lastAnswer(other).textContent(), kText);
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

describe('an answer that can not go on', () => {
  chat('is kept, marked as interrupted, and can be asked for again', { onGenerate: wordByWord(makeGate()) }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, words(1));
    server.kept.clear();
    await page.reload();
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /Interrupted: the server no longer has the rest/);
    assert.equal(await lastAnswer(page).textContent(), words(1));
    await page.reload();
    await trouble(page).waitFor();
    server.onGenerate = async (stream) => { stream.accepted(); stream.token(kText); stream.end(); };
    await connected(page);
    await press(page, 'Try again');
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), kText);
    assert.equal(server.requests[1].seed, server.requests[0].seed);
  });

  chat('says so where the server keeps no streams', { onGenerate: wordByWord(makeGate()) }, async (page, server) => {
    server.options.delete('keep_ms');
    await say(page, 'Go');
    await shows(page, words(1));
    assert.deepEqual(server.requests.map(({ keep_ms }) => keep_ms), [30000, undefined]);
    server.dropAll();
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /The connection broke before this answer was complete/);
    await connected(page);
    await press(page, 'Try again');
    await shows(page, words(1));
    await page.reload();
    await trouble(page).waitFor();
    assert.match(await trouble(page).textContent(), /reloaded/);
  });
});

describe('an answer stands still', () => {
  const drawn = makeGate();
  chat('from Pause to Continue, also over a reload', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Once');
      await drawn.passed(1);
      await stream.tokens(' upon a time.');
      stream.end();
    },
  }, async (page, server) => {
    await say(page, 'Go');
    await shows(page, 'Once');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.figures').getByText('Paused').waitFor();
    drawn.open();
    await page.reload();
    await page.locator('.figures').getByText('Paused').waitFor();
    await connected(page);
    assert.equal(await lastAnswer(page).textContent(), 'Once');
    await page.getByRole('button', { name: 'Continue' }).click();
    await chip(page).waitFor();
    assert.equal(await lastAnswer(page).textContent(), 'Once upon a time.');
    assert.deepEqual(server.frames.map(({ type }) => type), ['generate', 'pause', 'resume', 'unpause']);
  });

  const keys = makeGate();
  chat('by the keyboard, and can be stopped', {
    onGenerate: async (stream) => {
      stream.accepted();
      stream.token('Once');
      await keys.passed(1);
      await stream.tokens(' upon a time.');
      stream.end();
    },
  }, async (page) => {
    await page.keyboard.press('Alt+p');  // nothing to pause
    await say(page, 'Go');
    await shows(page, 'Once');
    await page.keyboard.press('Alt+p');
    await page.locator('.figures').getByText('Paused').waitFor();
    assert.match(await page.locator('#announcer').textContent(), /Paused\./);
    keys.open();
    await page.getByRole('button', { name: 'Continue' }).focus();
    await page.keyboard.press('Escape');
    await chip(page).waitFor();
    assert.equal(await chip(page).textContent(), 'Stopped by you');
    assert.equal(await lastAnswer(page).textContent(), 'Once');
    assert.ok(await page.evaluate(() => document.activeElement !== document.body));
  });
});
