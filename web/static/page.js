import { attempt } from './browser.js';
import { second } from './time.js';

// The page around its <send-code>: the title says which card is shown, and after a right code the person is returned to the app.

const code = document.querySelector('send-code'), form = code.closest('form'), [, ...site] = document.title.split(' · ');
let going;

code.autofocus = attempt(() => matchMedia('(pointer: fine)').matches, false); // on a touch screen the keyboard would cover the page
code.querySelector('.link').addEventListener('click', () => { code.reset(); code.focus(); });
code.addEventListener('approved', () => { if ('return' in form.dataset) setTimeout(() => form.requestSubmit(), second); });
form.addEventListener('submit', (event) => {
  if (going) event.preventDefault(); // it was pressed a moment before
  going = true;
});
addEventListener('pageshow', () => { going = false; });

await customElements.whenDefined('send-code');
const named = () => {
  const heading = code.shadowRoot.querySelector('#heading')?.textContent;
  if (heading) document.title = [heading, ...site].join(' · ');
};
new MutationObserver(named).observe(code.shadowRoot, { childList: true, subtree: true });
named();
