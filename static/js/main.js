// Starts the page: makes the parts and introduces them to each other.

import { Announcer } from './announcer.js';
import { Chat } from './chat.js';
import { Composer } from './composer.js';
import { Connection } from './connection.js';
import { showConnection } from './connection_view.js';
import { Conversation } from './conversation.js';
import { byId } from './dom.js';
import { Follow } from './follow.js';
import { startKeyboard } from './keyboard.js';
import { Notice } from './notice.js';
import { Settings } from './settings.js';
import { SettingsForm } from './settings_form.js';
import { Streams } from './streams.js';
import { startTheme } from './theme.js';
import { Transcript } from './transcript.js';
import { startViewport } from './viewport.js';
import { showModel, startWelcome } from './welcome.js';

const url = new URL('v1/stream', location.href);
url.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
url.search = url.hash = '';

const connection = new Connection(url.href);
const streams = new Streams(connection);
const conversation = Conversation.restored();
const settings = new Settings();
const composer = new Composer();
const announcer = new Announcer();
const notice = new Notice();
const follow = new Follow();
const form = new SettingsForm(settings);
const chat = new Chat({ connection, streams, conversation, settings, composer, announcer, notice, follow });

chat.begin(new Transcript(conversation, chat));

composer.onsend = (text) => chat.send(text);
composer.onstop = () => chat.stop();
byId('new-chat').addEventListener('click', () => chat.newChat());
startKeyboard(composer, chat);
startTheme();
startViewport();
for (const event of ['pagehide', 'visibilitychange']) addEventListener(event, () => conversation.save());

startWelcome((text) => {
  if (!chat.send(text)) composer.text = text;
  composer.settle();
});
connection.addEventListener('hello', ({ detail }) => {
  showModel(detail);
  form.setHello(detail);
  chat.setHello(detail);
});
streams.onstray = ({ message }) => notice.show(`The server did not understand this page: ${message}`, { tone: 'bad' });
showConnection(connection, announcer);
connection.open();
follow.start();
composer.settle();
