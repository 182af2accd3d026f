// The page works without this script, which adds Copy to each piece of code, and a search of the
// page's titles.

if (navigator.clipboard) {
  for (const code of document.querySelectorAll('pre > code')) {
    const copy = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Copy' });
    copy.addEventListener('click', async () => {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 2000);
    });
    code.before(copy);
  }
}

const contents = document.querySelector('#contents');
const search = Object.assign(document.createElement('input'), { type: 'search', placeholder: 'Search titles', ariaLabel: 'Search titles' });
contents.prepend(search);

search.addEventListener('input', () => {
  const words = search.value.toLowerCase().split(/\s+/);
  for (const item of contents.querySelectorAll('li')) {
    item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
  }
});

search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') contents.querySelector('li:not([hidden]) a')?.click();
});
