// The page works without this script, which adds Copy to each piece of code, and a search of the
// page's titles. On a telephone it closes the list and the sections, which open by a press.

if (navigator.clipboard) {
  for (const code of document.querySelectorAll('pre > code')) {
    const copy = Object.assign(document.createElement('button'),
        { type: 'button', textContent: 'Copy', ariaLabel: `Copy ${code.textContent.trim().split('\n')[0].slice(0, 60)}` });
    copy.addEventListener('click', async () => {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 2000);
    });
    code.before(copy);
  }
}

const list = document.querySelector('#contents details');
const search = Object.assign(document.createElement('input'), { type: 'search', placeholder: 'Search titles', ariaLabel: 'Search titles' });
const found = document.createElement('p');
found.role = 'status';
list.querySelector('summary').after(search, found);

search.addEventListener('input', () => {
  const words = search.value.toLowerCase().split(/\s+/), items = [...list.querySelectorAll('li')];
  for (const item of items) item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
  found.textContent = items.every((item) => item.hidden) ? 'No title has these words.' : '';
});

search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') list.querySelector('li:not([hidden]) a')?.click();
});

const narrow = !matchMedia('(min-width: 56rem)').matches;

function fold(section, yes) {
  section.classList.toggle('folded', yes);
  section.querySelector('h3 > a').ariaExpanded = !yes;
}

// open opens the section that the address names, also if it is open in part alone.
function open() {
  const section = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest('section.card');
  if (!section) return;
  fold(section, false);
  section.scrollIntoView();
}

if (narrow) {
  list.open = false;
  list.addEventListener('click', (event) => { if (event.target.closest('a')) list.open = false; });
  for (const section of document.querySelectorAll('section.card')) {
    fold(section, true);
    section.querySelector('h3 > a').addEventListener('click', () => fold(section, !section.classList.contains('folded')));
  }
  addEventListener('hashchange', open);
  open();
}
