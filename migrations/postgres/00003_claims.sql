-- +goose Up

-- Which requests are one, by the caller's word (Idempotency-Key). A claim holds no request and no answer: it names the
-- send that came of it, which the log has anyway. Not partitioned: a key has to be unique over all time that it lives.
CREATE TABLE claims (
    key         bytea       NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),         -- keyed hash
    fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 32), -- keyed hash of what was asked
    send_id     uuid        NOT NULL,
    made_at     timestamptz NOT NULL,
    held_until  timestamptz NOT NULL -- until then somebody works on it
);
CREATE INDEX claims_made ON claims (made_at);
