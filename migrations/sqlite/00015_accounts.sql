-- +goose Up

-- As postgres/00015_accounts.sql, where each choice is explained.
CREATE TABLE accounts (
    name        TEXT    NOT NULL PRIMARY KEY,
    role        TEXT    NOT NULL CHECK (role IN ('reader', 'operator', 'owner')),
    password    TEXT    NOT NULL,
    made_at     INTEGER NOT NULL,
    disabled_at INTEGER
) STRICT;

CREATE TABLE sessions (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    account    TEXT    NOT NULL,
    bound      BLOB    NOT NULL CHECK (length(bound) = 32),
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_started ON sessions (started_at);
