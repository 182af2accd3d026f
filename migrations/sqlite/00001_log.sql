-- +goose Up

-- The same log as postgres/00001_log.sql, where each choice is explained. Instants and durations are whole microseconds
-- (instants since 1970, UTC) on the clock of the program, flags are 0 or 1, IDs of sends are UUIDs as text.

CREATE TABLE verifications (
    id           TEXT    NOT NULL PRIMARY KEY,
    app          TEXT    NOT NULL,
    channel      TEXT    NOT NULL,
    purpose      TEXT    NOT NULL,
    recipient    BLOB    NOT NULL CHECK (length(recipient) = 16), -- keyed hash
    masked       TEXT    NOT NULL,
    sealed       BLOB,                                            -- encrypted; NULL once erased
    holder       TEXT    NOT NULL,
    nonce        BLOB    NOT NULL,
    key_id       TEXT    NOT NULL,
    code_length  INTEGER NOT NULL,
    locale       TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    attempts     INTEGER NOT NULL CHECK (attempts BETWEEN 0 AND max_attempts),
    max_attempts INTEGER NOT NULL,
    sends        INTEGER NOT NULL,
    approved_at  INTEGER,
    canceled_at  INTEGER
) STRICT;

CREATE INDEX verifications_holder ON verifications (recipient, app, channel, purpose, holder, created_at)
    WHERE holder <> '' AND approved_at IS NULL AND canceled_at IS NULL;

CREATE TABLE sends (
    id              TEXT    NOT NULL PRIMARY KEY,
    verification_id TEXT    NOT NULL,
    number          INTEGER NOT NULL,
    app             TEXT    NOT NULL,
    channel         TEXT    NOT NULL,
    purpose         TEXT    NOT NULL,
    recipient       BLOB    NOT NULL CHECK (length(recipient) = 16),
    masked          TEXT    NOT NULL,
    locale          TEXT    NOT NULL,
    reference       TEXT    NOT NULL,
    ip              TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('queued', 'sending', 'sent', 'failed', 'unknown', 'refused')),
    reason          TEXT    NOT NULL DEFAULT '',
    attempt         INTEGER NOT NULL,
    in_doubt        INTEGER NOT NULL DEFAULT 0,
    counts          INTEGER NOT NULL,
    refund_since    INTEGER,
    taken_at        INTEGER NOT NULL,
    clock           TEXT    NOT NULL,
    logged_at       INTEGER NOT NULL,
    due_at          INTEGER,
    finished_at     INTEGER,
    provider        TEXT    NOT NULL DEFAULT '',
    provider_code   TEXT    NOT NULL DEFAULT '',
    took            INTEGER NOT NULL DEFAULT 0,
    blocked_by      TEXT    NOT NULL DEFAULT '',
    retry_after     INTEGER NOT NULL DEFAULT 0,
    requests        INTEGER NOT NULL DEFAULT 1 CHECK (requests > 0),
    CHECK ((status IN ('queued', 'sending')) = (due_at IS NOT NULL)),
    CHECK (status <> 'refused' OR counts = 0)
) STRICT;

CREATE INDEX sends_counting     ON sends (recipient, app, channel, logged_at) WHERE counts = 1;
CREATE INDEX sends_in_flight    ON sends (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX sends_refunds      ON sends (refund_since, id) WHERE refund_since IS NOT NULL;
CREATE INDEX sends_logged       ON sends (logged_at, id);
CREATE INDEX sends_recipient    ON sends (recipient, logged_at, id);
CREATE INDEX sends_verification ON sends (verification_id) WHERE verification_id <> '';
CREATE INDEX sends_reference    ON sends (reference, logged_at, id) WHERE reference <> '';
