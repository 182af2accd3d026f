-- +goose Up
-- As in postgres/00010_oauth_tokens.sql, which explains it.
CREATE TABLE oauth_tokens (
    client       TEXT    PRIMARY KEY NOT NULL,
    sealed       BLOB,
    version      INTEGER NOT NULL DEFAULT 0,
    until        INTEGER NOT NULL,
    leased_until INTEGER NOT NULL
) STRICT;
