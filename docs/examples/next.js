// app/sign-in/route.js: takes the form with <send-code name="proof">
export async function POST(request) {
  const proof = (await request.formData()).get('proof');
  const answer = await fetch(`${process.env.CODES_URL}/v1/proofs/redeem`, {
    method: 'POST', body: JSON.stringify({ proof }),
    headers: { Authorization: `Bearer ${process.env.CODES_KEY}`, 'Content-Type': 'application/json' },
  });
  if (!answer.ok) return new Response('Ask for a new code.', { status: 403 });
  return new Response(`Welcome, ${(await answer.json()).to}`); // log the person in here
}
