// What the tests of the page share: each runs on a fresh page and a fresh mock server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connected, launchBrowser, openPage } from './browser.mjs';
import { startMock } from './mock_server.mjs';

let browser;
before(async () => { browser = await launchBrowser(); });
after(() => browser.close());

/// A test that runs `steps(page, server)`. The page must not have done anything it must not do
/// (see openPage). options: {onGenerate, hello} of the server, {page} of the browser's context.
export function chat(name, { onGenerate, hello, page: pageOptions }, steps) {
  test(name, async () => {
    const server = await startMock({ onGenerate, hello });
    const page = await openPage(browser, server.url, pageOptions);
    page.setDefaultTimeout(10000);
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

export const chip = (page) => page.locator('.exchange.last .chip');
export const trouble = (page) => page.locator('.exchange.last .trouble');
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
