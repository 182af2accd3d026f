import { attempt } from './browser.js';
import { second } from './time.js';

// The page around its <send-code>. Its title says which card is shown. Back leads from the field
// for another address to the code. After a reload, the confirmed card stays. After a right code,
// the person returns to the app.

const code = document.querySelector('send-code'), form = code.closest('form'), [, ...site] = document.title.split(' · ');
let going, left; // going: the form was posted; left: the history entry of the field was left; neither has taken effect yet

// The state of the tab's history entry: {proof}, or {aside: true} for the field for another
// address.
const keep = (state) => attempt(() => history.replaceState(state, ''));
const kept = () => attempt(() => history.state) ?? {};

if (kept().proof) code.value = kept().proof; // the widget says whether the proof has expired
code.autofocus = attempt(() => matchMedia('(pointer: fine)').matches, false); // on a touch screen the keyboard would cover the page
code.querySelector('.link').addEventListener('click', () => { keep(null); code.reset(); code.focus(); });
code.addEventListener('approved', ({ detail: { proof } }) => {
  keep({ proof });
  if ('return' in form.dataset) setTimeout(() => form.requestSubmit(), second);
});
code.addEventListener('expired', ({ detail: { status } }) => { if (status === 'approved') keep(null); });
form.addEventListener('submit', (event) => {
  if (going) event.preventDefault(); // the button was pressed a moment before
  else setTimeout(() => { going = false; }, 10 * second); // in case the person has stopped the request, or no page came
  going = true;
});
addEventListener('pageshow', () => { going = false; });

await customElements.whenDefined('send-code');
const find = (id) => code.shadowRoot.getElementById(id);
const follow = () => {
  const heading = find('heading')?.textContent, aside = find('go-back') !== null;
  if (heading) document.title = [heading, ...site].join(' · ');
  if (aside && !kept().aside) attempt(() => history.pushState({ aside }, ''));
  if (!aside && kept().aside && !left) { // by a press
    left = true;
    history.back();
  }
};
new MutationObserver(follow).observe(code.shadowRoot, { childList: true, subtree: true });
addEventListener('popstate', () => {
  left = false;
  find(kept().aside ? 'go-change' : 'go-back')?.click();
});
follow();
