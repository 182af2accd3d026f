// A firewall, a proxy or a captive portal may answer in the service's place, with any status. Each success of the service has one of these members.
const isOurs = ({ type, request_id, ...said }, ok) =>
  ok ? ['quota', 'valid', 'approved_at', 'outcome'].some((name) => name in said) : `${type}`.includes('/problems/') && request_id;
export const ask = async (path, body, key = crypto.randomUUID()) => {
  const headers = { Authorization: `Bearer ${process.env.CODES_KEY}`, 'Content-Type': 'application/json', 'Idempotency-Key': key };
  try {
    const answer = await fetch(process.env.CODES_URL + path, { method: 'POST', body: JSON.stringify(body), headers, signal: AbortSignal.timeout(10_000) });
    const said = await answer.json();
    if (!isOurs(said, answer.ok)) throw new Error('another program answered');
    return [answer.status, said];
  } catch (error) { return [503, { detail: `No answer: ${error.message}` }]; }
};
// client_ip: the address of your user; verification_id: the id of the code to send again, if there is one
export const send = (to, client_ip, verification_id, key) =>
  ask('/v1/verifications', { channel: 'email', to, client_ip, verification_id }, key);
export const check = (id, code, client_ip) => ask(`/v1/verifications/${id}/check`, { code, client_ip });
