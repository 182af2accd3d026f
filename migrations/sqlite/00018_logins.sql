-- +goose Up

-- As postgres/00018_logins.sql, where each choice is explained.
ALTER TABLE accounts ADD COLUMN identity TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX accounts_identity ON accounts (identity) WHERE identity <> '';

ALTER TABLE sessions ADD COLUMN via TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN granted TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN passed INTEGER NOT NULL DEFAULT 0;

CREATE TABLE second_factors (
    account TEXT    NOT NULL PRIMARY KEY,
    sealed  BLOB    NOT NULL,
    step    INTEGER NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;

CREATE TABLE recovery_codes (
    account TEXT NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (account, hash)
) STRICT;
