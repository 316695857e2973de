// What axe-core finds in each state of the page: nothing serious.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { say } from './support/browser.mjs';
import { chat, chip, trouble } from './support/page_steps.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/// Serious and critical issues, one line each.
async function issues(page, state) {
  const found = await page.evaluate(async () => {
    for (const animation of document.getAnimations()) {
      if (animation.effect.getComputedTiming().iterations !== Infinity) animation.finish();
    }
    const { violations } = await window.axe.run({ resultTypes: ['violations'] });
    return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ target, any }) => `${target} ${any[0]?.message ?? ''}`).join(', ')}`);
  });
  return found.map((line) => `${state}: ${line}`);
}

async function script(stream) {
  if (stream.message === 'too long') return stream.error('prompt_too_long', 'The prompt has 700 tokens.');
  if (stream.message === 'wait') {
    stream.heartbeat('prefill', { prefill_done: 256, prefill_total: 900 });
    await stream.whenCancelled;
  }
  stream.accepted();
  await stream.tokens('Once upon a time.');
  if (stream.message === 'on and on') await stream.whenCancelled;
  return stream.end(stream.message === 'limit' ? { rule: 'max_new_tokens', reason: 'length' } : {});
}

const kPhone = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true };
for (const [name, options] of [['light', {}], ['dark on a phone', { colorScheme: 'dark', ...kPhone }]]) {
  chat(`a screen reader finds its way when it is ${name}`, { onGenerate: script, page: options }, async (page, server) => {
    await page.evaluate(axe);
    const found = await issues(page, 'empty');
    const look = async (state) => found.push(...await issues(page, state));
    await page.locator('#open-settings').click();
    await page.locator('#set-top_k').fill('-4');
    await look('settings');
    await page.keyboard.press('Escape');
    await say(page, 'wait');
    await page.locator('.track').waitFor();
    await look('prefill');
    await page.keyboard.press('Escape');
    await chip(page).waitFor();
    await look('stopped');
    await say(page, 'limit');
    await chip(page).waitFor();
    await chip(page).focus();
    await look('reason');
    await say(page, 'too long');
    await trouble(page).waitFor();
    await look('refused');
    if (name === 'light') {
      await page.getByRole('button', { name: 'Forget the oldest' }).click();
      await page.locator('.forgotten').first().waitFor();
      await trouble(page).waitFor();
      await look('forgotten');
    }
    await say(page, 'on and on');
    await page.locator('.exchange.last .text').getByText('a time.').waitFor();
    await page.keyboard.press('Alt+p');
    await page.getByRole('button', { name: 'Continue' }).waitFor();
    await look('paused');
    server.refusing = true;
    server.dropAll();
    await page.getByText('Connection lost.').waitFor();
    await look('lost');
    server.kept.clear();
    server.refusing = false;
    await trouble(page).getByText('Interrupted').waitFor();
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    await say(page, 'offline');
    await page.locator('#notice').waitFor();
    await look('interrupted');
    assert.deepEqual(found, []);
  });
}
