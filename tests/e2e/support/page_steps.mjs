// What the tests of the page share: each runs on a fresh page and a fresh mock server.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { connected, launchBrowser, openPage } from './browser.mjs';
import { kVendor, startMock } from './mock_server.mjs';

let browser;
before(async () => { browser = await launchBrowser(); });
after(() => browser.close());

/// A test that runs `steps(page, server)`. The page must not have done anything it must not do
/// (see openPage). options: {onGenerate, hello} of the server, {page} of the browser's context,
/// {markdown}: answers are shown as Markdown, by the libraries that the build fetched.
export function chat(name, { onGenerate, hello, page: pageOptions, markdown = false }, steps) {
  test(name, { skip: markdown && !existsSync(`${kVendor}/marked.js`) && 'the build has fetched no libraries' }, async () => {
    const server = await startMock({ onGenerate, hello });
    const page = await openPage(browser, server.url, { settings: { markdown }, ...pageOptions });
    page.setDefaultTimeout(8000);
    try {
      await connected(page);
      await steps(page, server);
      assert.deepEqual(page.problems, []);
    } finally {
      await page.context().close();
      await server.close();
    }
  });
}

export const chip = (page) => page.locator('.turn:last-child .chip');
export const trouble = (page) => page.locator('.turn:last-child .trouble');
export const shows = (page, text) => page.waitForFunction(
  (wanted) => document.querySelector('.turn:last-child .text')?.textContent === wanted, text);
export const prompt = (page) => page.locator('#prompt');
export const press = (page, name) => page.getByRole('button', { name, exact: true }).click();

/// Steps that a test lets go one by one: `await gate.passed(n)` in the server waits for the n-th
/// `gate.open()`.
export function makeGate() {
  let opened = 0;
  let wake = [];
  return {
    open() { opened += 1; wake.splice(0).forEach((resume) => resume()); },
    async passed(n) { while (opened < n) await new Promise((resume) => wake.push(resume)); },
  };
}

export async function untilCancelled(stream) {
  stream.accepted();
  await stream.tokens('Once upon a time there was');
  await stream.whenCancelled;
  stream.token(' a gate.');
  stream.end();
}
