// Everything about the page, in one browser, several pages at a time.

import './page/chat.mjs';
import './page/machine.mjs';
import './page/resume.mjs';
import './page/accessibility.mjs';
