-- +goose Up

-- As postgres/00008_suppressions.sql.
CREATE TABLE suppressions (
    id         TEXT    NOT NULL PRIMARY KEY,
    app        TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    address    BLOB    NOT NULL CHECK (length(address) = 16),
    recipient  BLOB    NOT NULL CHECK (length(recipient) = 16),
    masked     TEXT    NOT NULL,
    reason     TEXT    NOT NULL CHECK (reason IN ('hard_bounce', 'complaint', 'opt_out', 'manual')),
    detail     TEXT    NOT NULL,
    send_id    TEXT,
    made_by    TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    lifted_at  INTEGER,
    lifted_by  TEXT    NOT NULL DEFAULT '',
    lifted_why TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX suppressions_active ON suppressions (address, channel, until) WHERE lifted_at IS NULL;
CREATE INDEX suppressions_listed ON suppressions (since, id);

ALTER TABLE sends ADD COLUMN suppression_id TEXT;

CREATE INDEX sends_failures ON sends (recipient, app, channel, finished_at) WHERE status = 'failed' AND reason IN ('rejected', 'suppressed', 'paused');
DROP INDEX sends_rejected;
