-- +goose Up

-- As postgres/00013_provider_events.sql.
CREATE TABLE provider_events (
    send_id  TEXT    NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out')),
    at       INTEGER NOT NULL,
    heard_at INTEGER NOT NULL,
    provider TEXT    NOT NULL,
    detail   TEXT    NOT NULL,
    PRIMARY KEY (send_id, kind)
) STRICT;

ALTER TABLE sends ADD COLUMN afterwards TEXT NOT NULL DEFAULT '';
