-- +goose NO TRANSACTION
-- +goose Up

-- Who gets no mail for a while, and why. A row says it of one very address, not of all spellings of a mailbox: what one of
-- them bounces says nothing of the others. Rows are lifted, never deleted: they are a part of the record.
CREATE TABLE IF NOT EXISTS suppressions (
    id         uuid        NOT NULL PRIMARY KEY,
    app        text        NOT NULL, -- '': of every app
    channel    text        NOT NULL,
    address    bytea       NOT NULL CHECK (octet_length(address) = 16),   -- keyed hash of the very address: decides
    recipient  bytea       NOT NULL CHECK (octet_length(recipient) = 16), -- keyed hash as its sends have it: leads to them
    masked     text        NOT NULL,
    reason     text        NOT NULL CHECK (reason IN ('hard_bounce', 'complaint', 'opt_out', 'manual')),
    detail     text        NOT NULL,
    send_id    uuid,                 -- of which it came; NULL: by hand
    made_by    text        NOT NULL,
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    lifted_at  timestamptz,
    lifted_by  text        NOT NULL DEFAULT '',
    lifted_why text        NOT NULL DEFAULT ''
);
-- Begin looks one recipient up. What has run out stays in it: a predicate can't know the time.
CREATE INDEX IF NOT EXISTS suppressions_active ON suppressions (address, channel, until) WHERE lifted_at IS NULL;
CREATE INDEX IF NOT EXISTS suppressions_listed ON suppressions (since, id);

-- The suppression that a send met in Begin: it is never handed to a mail server, whoever takes it over.
ALTER TABLE sends ADD COLUMN IF NOT EXISTS suppression_id uuid;

-- What the rule on failures counts: as sends_rejected, with what was not even tried. Built beside the traffic; what an
-- interrupted build left behind goes first. A program of before finds its rejected sends by it as well.
DROP INDEX CONCURRENTLY IF EXISTS sends_failures;
CREATE INDEX CONCURRENTLY sends_failures ON sends (recipient, app, channel, finished_at)
    WHERE status = 'failed' AND reason IN ('rejected', 'suppressed', 'paused');
DROP INDEX CONCURRENTLY IF EXISTS sends_rejected;
