-- +goose Up
-- +goose StatementBegin
-- As in postgres/00006_limiter_events.sql, which explains it. There is one process, which reads all rows at its start.
CREATE TABLE limiter_events (
    bucket   BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    at       INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    refunded INTEGER NOT NULL DEFAULT 0,
    writer   INTEGER NOT NULL,
    seq      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, id)
) STRICT;
CREATE INDEX limiter_events_until ON limiter_events (until);
-- +goose StatementEnd
