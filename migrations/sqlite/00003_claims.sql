-- +goose Up

-- As postgres/00003_claims.sql.
CREATE TABLE claims (
    key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32),
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    send_id     TEXT    NOT NULL,
    made_at     INTEGER NOT NULL,
    held_until  INTEGER NOT NULL
) STRICT;
CREATE INDEX claims_made ON claims (made_at);
