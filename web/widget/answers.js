// What makes a value an answer of the service, whatever its status says. A service worker, a
// firewall, a proxy or a captive portal may answer in its place, with any status and any form. The
// functions throw, or return a false value, for another's.

const isText = (value) => value && typeof value === 'string';

// isOffer is for /v1/channels.
export const isOffer = ({ channels }) => channels.every(({ channel }) => channel);

// isVerification is for a send and for a look.
export const isVerification = ({ id, status, send, quota, expires_in: life }) => isText(id) && isText(status) && isText(send.id) &&
    Array.isArray(quota.rules) && life >= 0;

// isCheck is for a check.
export const isCheck = ({ id, status, valid }) => isText(id) && isText(status) && typeof valid === 'boolean';

// isProblem is for what the service refuses (RFC 9457).
export const isProblem = ({ type, status, detail, request_id: request }) => /\/problems\/[\w-]+$/.test(type) && status >= 400 &&
    isText(detail) && isText(request);
