// A back end that uses what openapi-typescript makes of docs/openapi.yaml: `send <to>` or `check <id> <code>`. It compiles as long as a
// caller has to give no more than the service needs, and `valid` tells the answers to a check apart.
import type { components, paths } from "./api";

declare const process: { argv: string[]; env: Record<string, string> };
type Ask = components["schemas"]["Ask"];
type Asked = paths["/v1/verifications"]["post"]["responses"];
type Checked = paths["/v1/verifications/{id}/check"]["post"]["responses"]["200"]["content"]["application/json"];

export const again: Ask = { verification_id: "01a2062b-2f03-7962-9eac-0bf0b1a1b687" };
// @ts-expect-error: a recipient needs a channel
export const short: Ask = { to: "ana@example.com" };

const post = async (path: string, body: unknown): Promise<Response> => fetch(process.env.CODES_URL + path, {
  method: "POST", body: JSON.stringify(body),
  headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.CODES_KEY}` },
});

async function send(to: string): Promise<object> {
  const ask: Ask = { channel: "email", to };
  const answer = await post("/v1/verifications", ask);
  if (answer.status === 202) {
    const sent: Asked["202"]["content"]["application/json"] = await answer.json();
    return { id: sent.id, status: sent.status };
  }
  const refused: Asked["429"]["content"]["application/problem+json"] = await answer.json();
  return "blocked_by" in refused ? { retry_after: refused.retry_after, blocked_by: refused.blocked_by } : { type: refused.type };
}

async function check(id: string, code: string): Promise<object> {
  const checked: Checked = await (await post(`/v1/verifications/${id}/check`, { code })).json();
  if (checked.valid) {
    const proof: string = checked.proof;
    return { valid: true, status: checked.status, proof };
  }
  return { valid: false, status: checked.status, attempts_remaining: checked.attempts_remaining };
}

const [does, first, second] = process.argv.slice(2);
console.log(JSON.stringify(does === "send" ? await send(first!) : await check(first!, second!)));
