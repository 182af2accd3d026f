// These functions decide by the form of a value whether it is an answer of the service, whatever
// its status says. A service worker, a firewall, a proxy or a captive portal may answer in place of
// the service, with any status and any form. For such an answer, the functions throw or return a
// false value.

const isText = (value) => value && typeof value === 'string';

// isOffer returns whether a value is an answer of /v1/channels.
export const isOffer = ({ channels }) => channels.every(({ channel }) => channel);

// isVerification returns whether a value is an answer to a send or to a look.
export const isVerification = ({ id, status, send, quota, expires_in: life }) => isText(id) && isText(status) && isText(send.id) &&
    Array.isArray(quota.rules) && life >= 0;

// isCheck returns whether a value is an answer to a check.
export const isCheck = ({ id, status, valid }) => isText(id) && isText(status) && typeof valid === 'boolean';

// isProblem returns whether a value is a problem of the service (RFC 9457).
export const isProblem = ({ type, status, detail, request_id: request }) => /\/problems\/[\w-]+$/.test(type) && status >= 400 &&
    isText(detail) && isText(request);
