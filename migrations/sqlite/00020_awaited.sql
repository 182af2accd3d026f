-- +goose Up

-- As postgres/00020_awaited.sql.
CREATE TABLE awaited (
    carrier    TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    send_id    TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    ask_at     INTEGER,
    asked      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (carrier, message_id)
) STRICT;
CREATE INDEX awaited_send ON awaited (send_id);
CREATE INDEX awaited_ask ON awaited (ask_at) WHERE ask_at IS NOT NULL;
CREATE INDEX awaited_at ON awaited (at);
