// What theTableOfCards asks the scripts of page and widget about.
import { draw } from '../../../../web/widget/draw.js';
import { cards, pick } from '../../../../web/widget/code.js';
import * as phones from '../../../../web/widget/phones.js';
import { clock, Moment, put } from '../../../../web/static/time.js';
import { codeIn, slipIn } from '../../../../web/static/code.js';
import { search } from '../../../../web/static/work.js';

window.widget = { draw, pick, cards, phones, put, codeIn, slipIn, clock, Moment, search };
