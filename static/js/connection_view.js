// The connection's state in the header, and a way to try again at once.

import { byId } from './dom.js';

export function showConnection(connection, announcer) {
  const node = byId('connection');
  let lost = false;

  function draw() {
    const { state } = connection;
    node.dataset.state = state;
    node.disabled = byId('connection-hint').hidden = state !== 'waiting';
    byId('connection-text').textContent = { open: 'Connected', waiting: 'Offline' }[state] ?? 'Connecting';
    if (state === 'waiting' && !lost) announcer.say('The connection is lost. Trying again.');
    if (state === 'open' && lost) announcer.say('Connected again.');
    if (state !== 'connecting') lost = state === 'waiting';
  }

  node.addEventListener('click', () => connection.retryNow());
  connection.addEventListener('change', draw);
  draw();
}
