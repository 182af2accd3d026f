// New mails appear at the top by themselves. The other mails stay unchanged, and a mail under a
// pointer does not move.

const list = document.querySelector('#mails');
const every = 1500; // ms

for (const time of list.querySelectorAll('time')) local(time);

function local(time) {
  time.textContent = new Date(time.dateTime).toLocaleTimeString();
}

const copy = document.querySelector('#none button');
if (copy && navigator.clipboard) copy.hidden = false;
copy?.addEventListener('click', () => navigator.clipboard.writeText(document.querySelector('#none pre').textContent));

async function look() {
  try {
    const answer = await fetch('/mailbox', { cache: 'no-store', signal: AbortSignal.timeout(10_000) });
    if (answer.ok) take(new DOMParser().parseFromString(await answer.text(), 'text/html'));
  } catch {
    // The server is being restarted. The next call of look tries again.
  }
}

function take(page) {
  if (!page.querySelector('#mails')) return; // another program answered
  const mails = [...page.querySelectorAll('.mail[data-id]')];
  const there = new Map([...list.querySelectorAll('.mail[data-id]')].map((mail) => [mail.dataset.id, mail]));
  const under = list.querySelector('.mail:hover'), place = under?.getBoundingClientRect().top;
  if (mails.length) document.querySelector('#none')?.remove();
  for (const mail of mails.reverse()) {
    if (there.delete(mail.dataset.id)) continue;
    local(mail.querySelector('time'));
    list.prepend(document.adoptNode(mail));
  }
  for (const gone of there.values()) gone.remove();
  if (under?.isConnected) scrollBy(0, under.getBoundingClientRect().top - place);
}

setInterval(() => { if (document.visibilityState === 'visible') look(); }, every);
document.addEventListener('visibilitychange', () => { if (document.visibilityState === 'visible') look(); });
