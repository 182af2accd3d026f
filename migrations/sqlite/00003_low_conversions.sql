-- +goose Up
-- +goose StatementBegin

CREATE TABLE low_conversions (
    id       TEXT    NOT NULL PRIMARY KEY,
    app      TEXT    NOT NULL,
    since    INTEGER NOT NULL,
    sends    INTEGER NOT NULL,
    approved INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE UNIQUE INDEX low_conversions_current ON low_conversions (app) WHERE ended_at IS NULL;
-- +goose StatementEnd
