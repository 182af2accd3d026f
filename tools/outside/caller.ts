// A back end that uses what openapi-typescript makes of docs/openapi.yaml. It compiles as long as a caller has to give no
// more than the service needs.
import type { components, paths } from "./api";

type Ask = components["schemas"]["Ask"];
type Asked = paths["/v1/verifications"]["post"]["responses"];
type Checked = paths["/v1/verifications/{id}/check"]["post"]["responses"]["200"]["content"]["application/json"];

export const shortest: Ask = { channel: "email", to: "ana@example.com" };
export const wait = (a: Asked["202"]["content"]["application/json"]): number => a.quota.retry_after;
export const why = (p: Asked["422"]["content"]["application/problem+json"]): string => p.type;
export const approved = (c: Checked): boolean => c.valid;
