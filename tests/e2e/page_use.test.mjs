// The page in a real browser: settings, keyboard, looks, and what it may weigh.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { connected, lastAnswer, say } from './support/browser.mjs';
import { chat, chip, makeGate, press, prompt, trouble, untilCancelled } from './support/page_steps.mjs';

describe('the settings', () => {
  chat('start from the server, are checked, sent and remembered', {}, async (page, server) => {
    await page.locator('#open-settings').click();
    assert.equal(await page.locator('#set-temperature').getAttribute('placeholder'), '0.7');
    await page.locator('#set-temperature').fill('0.2');
    await page.locator('#set-top_k').fill('-4');
    assert.match(await page.locator('#set-top_k-wrong').textContent(), /\S/);
    assert.equal(await page.locator('#set-top_k').getAttribute('aria-invalid'), 'true');
    await page.locator('#set-top_p').fill('0.5');
    await page.locator('#set-min_p').fill('0.1');
    await page.locator('#set-max_tokens').fill('77');
    await page.locator('#set-seed').fill('42');
    await page.locator('#set-stop').fill('Human:\n\\n\\n');
    await page.locator('#close-settings').click();
    assert.equal(await page.evaluate(() => document.activeElement.id), 'open-settings');
    await page.reload();
    await connected(page);
    await say(page, 'Go');
    await chip(page).waitFor();
    const { id, type, messages, keep_ms, ...options } = server.requests[0];
    assert.deepEqual(options, {
      temperature: 0.2, top_p: 0.5, min_p: 0.1, max_tokens: 77, seed: 42, stop: ['Human:', '\n\n'],
    });
    await page.locator('#open-settings').click();
    await press(page, 'Use the server’s defaults');
    await page.keyboard.press('Escape');
    await say(page, 'Go');
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 2);
    assert.deepEqual(Object.keys(server.requests[1]).sort(), ['id', 'keep_ms', 'messages', 'seed', 'type']);
  });

  chat('survive whatever stands in the storage', {}, async (page) => {
    await page.evaluate(() => {
      localStorage.setItem('sluice.settings', '{"temperature":"x","seed":{},"stop":7}');
      localStorage.setItem('sluice.draft', 'null');
      localStorage.setItem('sluice.theme', '<b>');
      sessionStorage.setItem('sluice.conversation', '[null,{"prompt":1}]');
    });
    await page.reload();
    await connected(page);
    await say(page, 'Hello');
    await chip(page).waitFor();
  });
});

describe('the keyboard', () => {
  chat('is enough', { onGenerate: untilCancelled }, async (page, server) => {
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    await page.locator('#scroller').focus();
    await page.keyboard.press('/');
    await page.keyboard.type('one');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('two/');
    assert.equal(await prompt(page).inputValue(), 'one\ntwo/');
    await page.keyboard.press('Enter');
    await lastAnswer(page).getByText('there was').waitFor();
    assert.equal(server.requests[0].messages[0].content, 'one\ntwo/');
    await page.keyboard.type('next');
    await page.keyboard.press('Enter');
    assert.equal(await prompt(page).inputValue(), 'next');
    assert.equal(server.requests.length, 1);
    await page.keyboard.press('Escape');
    await chip(page).waitFor();
    await chip(page).focus();
    await page.locator('.tip').waitFor();
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => getComputedStyle(document.querySelector('.tip')).visibility === 'hidden');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
    await prompt(page).fill('');
    await page.keyboard.press('ArrowUp');
    assert.equal(await prompt(page).inputValue(), 'one\ntwo/');
    await page.keyboard.press('Escape');
    assert.equal(await prompt(page).inputValue(), '');
  });

  chat('reaches everything, and everything has a name', { onGenerate: async (stream) => { stream.accepted(); stream.token('Hi.'); stream.end(); } }, async (page) => {
    await say(page, 'Hello');
    await chip(page).waitFor();
    const reached = new Set();
    await page.evaluate(() => document.activeElement.blur());
    for (let i = 0; i < 16; i++) {
      await page.keyboard.press('Tab');
      reached.add(await page.evaluate(() => {
        const { id, className, textContent } = document.activeElement;
        return id || `${className}: ${textContent}`;
      }));
    }
    const names = [...reached].join(' | ');
    for (const name of ['new-chat', 'open-settings', 'toggle-theme', 'scroller', 'prompt', 'chip', 'Copy', 'Regenerate', 'Edit']) {
      assert.ok(names.includes(name), `${name} in ${names}`);
    }
    await page.locator('#open-settings').click();
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, textarea')]
      .filter((node) => !node.getAttribute('aria-label') && !node.textContent.trim() && !(node.labels?.length > 0))
      .map((node) => node.outerHTML));
    assert.deepEqual(nameless, []);
  });

  chat('types into an input method without sending', {}, async (page, server) => {
    await prompt(page).fill('にほん');
    await prompt(page).dispatchEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true });
    assert.equal(await prompt(page).inputValue(), 'にほん');
    assert.equal(server.requests.length, 0);
  });
});

describe('the look', () => {
  const kPhone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true };

  async function fits(page) {
    return page.evaluate(() => {
      const box = document.getElementById('composer').getBoundingClientRect();
      return document.documentElement.scrollWidth <= screen.width && innerWidth <= screen.width
        && box.bottom <= screen.height && box.left >= 0 && box.right <= screen.width;
    });
  }

  chat('fits a phone in every state', { page: kPhone, onGenerate: async (stream) => {
    if (stream.message === 'fail') return stream.error('prompt_too_long', 'A sentence of some length that must be broken into several lines.');
    stream.accepted();
    await stream.tokens(`${'x'.repeat(300)} and ${'a long line '.repeat(40)}`);
    return stream.end();
  } }, async (page, server) => {
    assert.ok(await fits(page));
    await prompt(page).fill('Hello');
    await page.locator('#send').tap();
    await chip(page).waitFor();
    assert.ok(await fits(page));
    await prompt(page).fill('fail');
    await page.locator('#send').tap();
    await trouble(page).waitFor();
    assert.ok(await fits(page));
    await page.locator('#open-settings').tap();
    assert.ok(await fits(page));
    await page.locator('#close-settings').tap();
    const small = await page.evaluate(() => [...document.querySelectorAll('header button:enabled, .composer button, .actions button')]
      .filter((node) => node.offsetParent !== null)
      .map((node) => node.getBoundingClientRect())
      .filter(({ width, height }) => width < 36 || height < 40).length);
    assert.equal(small, 0);
    server.refusing = true;
    server.dropAll();
    await page.locator('#connection[data-state="waiting"]').waitFor();
    assert.ok(await fits(page));
  });

  chat('stays at the bottom only for who is there', {
    page: { viewport: { width: 1000, height: 500 } },
    onGenerate: async (stream) => {
      stream.accepted();
      await stream.tokens('A line of text.\n'.repeat(60));
      await more.passed(1);
      await stream.tokens('Another line.\n'.repeat(30));
      await more.passed(2);
      stream.end();
    },
  }, async (page) => {
    const fromBottom = () => page.evaluate(() => {
      const { scrollHeight, scrollTop, clientHeight } = document.getElementById('scroller');
      return scrollHeight - scrollTop - clientHeight;
    });
    await say(page, 'Scroll');
    await page.waitForFunction(() => document.querySelector('.text').textContent.length > 900);
    await page.waitForFunction(() => {
      const { scrollHeight, scrollTop, clientHeight } = document.getElementById('scroller');
      return scrollHeight - scrollTop - clientHeight < 2;
    });
    await page.locator('#scroller').hover();
    await page.mouse.wheel(0, -300);
    await page.locator('#jump').waitFor();
    const top = await page.evaluate(() => document.getElementById('scroller').scrollTop);
    more.open();
    await page.waitForFunction(() => document.querySelector('.text').textContent.includes('Another line'));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await page.evaluate(() => document.getElementById('scroller').scrollTop), top);
    await page.locator('#jump').click();
    assert.ok(await fromBottom() < 2);
    assert.equal(await page.locator('#jump').isVisible(), false);
    more.open();
    await chip(page).waitFor();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.ok(await fromBottom() < 2);
  });
  const more = makeGate();

  chat('follows the system, and remembers a choice', { page: { colorScheme: 'dark' } }, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await ground(), 'rgb(13, 20, 19)');
    await page.locator('#toggle-theme').click();
    assert.equal(await ground(), 'rgb(245, 247, 246)');
    await page.reload();
    assert.equal(await ground(), 'rgb(245, 247, 246)');
    await page.locator('#toggle-theme').click();
    assert.equal(await ground(), 'rgb(13, 20, 19)');
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await ground(), 'rgb(245, 247, 246)', 'the page follows the system again');
  });

  for (const colorScheme of ['light', 'dark']) {
    chat(`has enough contrast when ${colorScheme}`, { page: { colorScheme } }, async (page) => {
      const poor = await page.evaluate(() => {
        const pairs = [['ink', 'ground'], ['ink', 'surface'], ['ink', 'sunken'], ['soft', 'ground'], ['soft', 'surface'],
          ['soft', 'sunken'], ['accent', 'ground'], ['accent', 'accent-wash'], ['accent-ink', 'accent'],
          ['warn', 'warn-wash'], ['warn', 'ground'], ['bad', 'bad-wash'], ['bad', 'surface'], ['ink', 'bad-wash'], ['ink', 'warn-wash']];
        const probe = document.createElement('i');
        document.body.append(probe);
        const luminance = (name) => {
          probe.style.color = `var(--${name})`;
          const channels = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map((c) => {
            const share = c / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
        };
        const contrast = ([a, b]) => {
          const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
          return (light + 0.05) / (dark + 0.05);
        };
        return pairs.filter((pair) => contrast(pair) < 4.5).map((pair) => `${pair}: ${contrast(pair).toFixed(2)}`);
      });
      assert.deepEqual(poor, []);
    });
  }

  chat('does not move for who wants it still', { page: { reducedMotion: 'reduce' } }, async (page) => {
    await say(page, 'Still');
    await chip(page).waitFor();
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  });
});

chat('the clipboard gets the whole answer', {
  page: { permissions: ['clipboard-read', 'clipboard-write'] },
  onGenerate: async (stream) => { stream.accepted(); stream.token(' a\n\n b '); stream.end(); },
}, async (page) => {
  await say(page, 'Hello');
  await chip(page).waitFor();
  await press(page, 'Copy');
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), ' a\n\n b ');
});

test('the scripts stay under 60 KiB and name no other host', async () => {
  const folder = new URL('../../static/', import.meta.url);
  const files = (await readdir(folder, { recursive: true })).filter((name) => /\.\w+$/.test(name));
  const texts = await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')));
  const scripts = texts.filter((_, i) => files[i].endsWith('.js')).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  assert.ok(scripts < 60 * 1024, `${scripts} bytes of scripts`);
  for (const [i, text] of texts.entries()) {
    const hosts = (text.match(/\bhttps?:\/\/[\w.]+/g) ?? []).filter((host) => host !== 'http://www.w3.org');
    assert.deepEqual(hosts, [], files[i]);
    if (files[i].endsWith('.html')) assert.doesNotMatch(text, /\sstyle=|\son\w+=|<script>|<style/);
  }
});
