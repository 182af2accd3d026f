export const ask = async (path, body, key = crypto.randomUUID()) => {
  const headers = { Authorization: `Bearer ${process.env.CODES_KEY}`, 'Content-Type': 'application/json', 'Idempotency-Key': key };
  try {
    const answer = await fetch(process.env.CODES_URL + path, { method: 'POST', body: JSON.stringify(body), headers, signal: AbortSignal.timeout(10_000) });
    return [answer.status, await answer.json()];
  } catch (error) { return [503, { detail: `No answer: ${error.message}` }]; }
};
// client_ip: the address of your user; verification_id: the id of the code to send again, if there is one
export const send = (to, client_ip, verification_id, key) =>
  ask('/v1/verifications', { channel: 'email', to, client_ip, verification_id }, key);
export const check = (id, code, client_ip) => ask(`/v1/verifications/${id}/check`, { code, client_ip });
