-- +goose Up
-- As in postgres/00008_delayed_events.sql, which explains it.
CREATE TABLE provider_events_2 (
    send_id  TEXT    NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out', 'unmapped', 'delayed')),
    at       INTEGER NOT NULL,
    heard_at INTEGER NOT NULL,
    provider TEXT    NOT NULL,
    detail   TEXT    NOT NULL,
    PRIMARY KEY (send_id, kind)
) STRICT;
INSERT INTO provider_events_2 SELECT send_id, kind, at, heard_at, provider, detail FROM provider_events;
DROP TABLE provider_events;
ALTER TABLE provider_events_2 RENAME TO provider_events;
