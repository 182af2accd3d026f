export const ask = async (path, body, key = crypto.randomUUID()) => {
  const answer = await fetch(process.env.CODES_URL + path, {
    method: 'POST', body: JSON.stringify(body),
    headers: { Authorization: `Bearer ${process.env.CODES_KEY}`, 'Content-Type': 'application/json', 'Idempotency-Key': key },
  });
  return [answer.status, await answer.json()];
};
export const send = (to, key) => ask('/v1/verifications', { channel: 'email', to, trust: 'stranger' }, key);
export const check = (id, code) => ask(`/v1/verifications/${id}/check`, { code });
