// app/sign-in/route.js: takes the form with <send-code name="proof">
export async function POST(request) {
  if (!['same-origin', null].includes(request.headers.get('sec-fetch-site'))) return new Response('Ask for a new code.', { status: 403 });
  const proof = (await request.formData().catch(() => null))?.get('proof'); // null: no form was posted
  const answer = await fetch(`${process.env.CODES_URL}/v1/proofs/redeem`, {
    method: 'POST', body: JSON.stringify({ proof }),
    headers: { Authorization: `Bearer ${process.env.CODES_KEY}`, 'Content-Type': 'application/json' }, signal: AbortSignal.timeout(10_000),
  }).catch(() => null);
  const proven = await answer?.json().catch(() => null); // anyone can change channel and purpose in the page
  const refused = answer?.status < 500 && `${proven?.type}`.includes('/problems/') && proven.request_id;
  const ours = answer?.ok && proven?.approved_at || refused; // a firewall or a proxy may have answered instead
  if (!ours) return new Response('Please try again.', { status: 503 });
  if (proven.channel !== 'email' || proven.purpose !== 'default') return new Response('Ask for a new code.', { status: 403 });
  return new Response(`Welcome, ${proven.to}`); // log the person in here
}
