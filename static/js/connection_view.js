// The connection's state in the header, with a countdown to the next try.

import { byId } from './dom.js';

export function showConnection(connection, announcer) {
  const node = byId('connection');
  let timer = 0;
  let lost = false;

  function draw() {
    clearInterval(timer);
    node.dataset.state = connection.state;
    node.disabled = byId('connection-hint').hidden = connection.state !== 'waiting';
    if (connection.state === 'waiting') {
      timer = setInterval(countDown, 500);
      countDown();
      if (!lost) announcer.say('The connection is lost. Trying again.');
      lost = true;
      return;
    }
    const open = connection.state === 'open';
    byId('connection-text').textContent = open ? 'Connected' : 'Connecting';
    if (open && lost) announcer.say('Connected again.');
    if (open) lost = false;
  }

  function countDown() {
    const seconds = Math.max(1, Math.ceil((connection.retryAt - Date.now()) / 1000));
    byId('connection-text').textContent = `Offline, next try in ${seconds} s`;
  }

  node.addEventListener('click', () => connection.retryNow());
  connection.addEventListener('change', draw);
  draw();
}
