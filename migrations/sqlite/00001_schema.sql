-- +goose Up
-- One statement for goose, which otherwise takes a buffer of 4 MiB for each line: under the race detector a quarter of them anew.
-- +goose StatementBegin

-- The same tables as postgres/00001_schema.sql, where each choice is explained; a file has no partitions and no roles.
-- Instants and durations are whole microseconds (instants since 1970, UTC) on the clock of the program, flags
-- are 0 or 1, IDs of sends are UUIDs as text.

CREATE TABLE schema_fingerprints (
    version INTEGER NOT NULL PRIMARY KEY,
    sha256  TEXT    NOT NULL
) STRICT;

CREATE TABLE key_checks (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL CHECK (length(value) = 32)
) STRICT;

CREATE TABLE verifications (
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    approved_at  INTEGER,
    canceled_at  INTEGER,
    redeemed_at  INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    sends        INTEGER NOT NULL,
    attempts_reset INTEGER NOT NULL DEFAULT 0,
    code_length  INTEGER NOT NULL,
    caller_checks INTEGER NOT NULL DEFAULT 0,
    class        TEXT    NOT NULL DEFAULT '',
    id           TEXT    NOT NULL PRIMARY KEY,
    app          TEXT    NOT NULL,
    channel      TEXT    NOT NULL,
    purpose      TEXT    NOT NULL,
    recipient    BLOB    NOT NULL CHECK (length(recipient) = 16), -- keyed hash
    masked       TEXT    NOT NULL,
    sealed       BLOB,                                            -- encrypted; NULL once erased
    redeemed_by  BLOB,
    holder       TEXT    NOT NULL,
    nonce        BLOB    NOT NULL,
    key_id       TEXT    NOT NULL,
    alphabet     TEXT    NOT NULL,
    locale       TEXT    NOT NULL,
    reference    TEXT    NOT NULL,
    checks       TEXT    NOT NULL DEFAULT '',
    replaces     TEXT    NOT NULL DEFAULT '',
    check_key    BLOB,
    details      TEXT    NOT NULL DEFAULT '',
    not_me_at    INTEGER,
    reported     TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX verifications_expires ON verifications (expires_at);
CREATE INDEX verifications_tried ON verifications (recipient, app, channel, expires_at) WHERE attempts > 0;
CREATE INDEX verifications_not_me ON verifications (not_me_at) WHERE not_me_at IS NOT NULL;

CREATE TABLE sends (
    id              TEXT    NOT NULL PRIMARY KEY,
    logged_at       INTEGER NOT NULL,
    finished_at     INTEGER,
    took            INTEGER NOT NULL DEFAULT 0,
    number          INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    in_doubt        INTEGER NOT NULL DEFAULT 0,
    counts          INTEGER NOT NULL,
    was_reset       INTEGER NOT NULL DEFAULT 0,
    suppression_id  TEXT,
    status          TEXT    NOT NULL,
    reason          TEXT    NOT NULL DEFAULT '',
    provider        TEXT    NOT NULL DEFAULT '',
    provider_code   TEXT    NOT NULL DEFAULT '',
    receipt         TEXT    NOT NULL DEFAULT '',
    worst_event     TEXT    NOT NULL DEFAULT '',
    bounced         INTEGER NOT NULL DEFAULT 0,
    app             TEXT    NOT NULL,
    channel         TEXT    NOT NULL,
    purpose         TEXT    NOT NULL,
    recipient       BLOB    NOT NULL CHECK (length(recipient) = 16),
    masked          TEXT    NOT NULL,
    domain          TEXT    NOT NULL,
    country         TEXT    NOT NULL,
    prefix          TEXT    NOT NULL,
    verification_id TEXT    NOT NULL,
    locale          TEXT    NOT NULL,
    reference       TEXT    NOT NULL,
    network         TEXT    NOT NULL,
    site            TEXT    NOT NULL DEFAULT '',
    request_id      TEXT    NOT NULL DEFAULT '',
    observed        TEXT    NOT NULL DEFAULT '',
    human_check     TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX sends_recipient ON sends (recipient, logged_at, id);
CREATE INDEX sends_logged    ON sends (logged_at, id);
CREATE INDEX sends_domain    ON sends (domain, logged_at, id) WHERE domain <> '';
CREATE INDEX sends_reference ON sends (reference, logged_at, id) WHERE reference <> '';
CREATE INDEX sends_texts     ON sends (logged_at, id) WHERE channel = 'sms';
CREATE INDEX sends_country   ON sends (country, logged_at, id) WHERE country <> '';

CREATE TABLE refusals (
    id              TEXT    NOT NULL PRIMARY KEY,
    logged_at       INTEGER NOT NULL,
    retry_after     INTEGER NOT NULL,
    requests        INTEGER NOT NULL,
    recipients      INTEGER NOT NULL,
    app             TEXT    NOT NULL,
    channel         TEXT    NOT NULL,
    purpose         TEXT    NOT NULL,
    recipient       BLOB    NOT NULL CHECK (length(recipient) = 16),
    masked          TEXT    NOT NULL,
    domain          TEXT    NOT NULL,
    country         TEXT    NOT NULL,
    prefix          TEXT    NOT NULL,
    verification_id TEXT    NOT NULL,
    locale          TEXT    NOT NULL,
    network         TEXT    NOT NULL,
    blocked_by      TEXT    NOT NULL
) STRICT;
CREATE INDEX refusals_recipient  ON refusals (recipient, logged_at, id);
CREATE INDEX refusals_logged     ON refusals (logged_at, id);
CREATE INDEX refusals_domain     ON refusals (domain, logged_at, id) WHERE domain <> '';
CREATE INDEX refusals_country    ON refusals (country, logged_at, id) WHERE country <> '';
CREATE INDEX refusals_blocked_by ON refusals (blocked_by, logged_at, id);

CREATE TABLE outbox (
    id         TEXT    NOT NULL PRIMARY KEY,
    due_at     INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    queued     INTEGER NOT NULL,
    channel    TEXT    NOT NULL,
    stranger   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    sealed     BLOB
) STRICT;
CREATE INDEX outbox_due ON outbox (due_at, id);

CREATE TABLE refunds (
    id      TEXT    NOT NULL PRIMARY KEY,
    since   INTEGER NOT NULL,
    attempt INTEGER NOT NULL
) STRICT;
CREATE INDEX refunds_since ON refunds (since, id);

CREATE TABLE failures (
    status      TEXT    NOT NULL,
    logged_at   INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    finished_at INTEGER NOT NULL,
    counts      INTEGER NOT NULL,
    app         TEXT    NOT NULL,
    channel     TEXT    NOT NULL,
    recipient   BLOB    NOT NULL,
    PRIMARY KEY (status, logged_at, id)
) STRICT;
CREATE INDEX failures_recipient ON failures (recipient, app, channel, finished_at);

CREATE TABLE idempotency_keys (
    key         BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 32),
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    send_id     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    held_until  INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

CREATE TABLE audit_entries (
    id        TEXT    NOT NULL PRIMARY KEY,
    at        INTEGER NOT NULL,
    actor     TEXT    NOT NULL CHECK (actor <> ''),
    role      TEXT    NOT NULL,
    network   TEXT    NOT NULL,
    action    TEXT    NOT NULL CHECK (action <> ''),
    app       TEXT    NOT NULL,
    channel   TEXT    NOT NULL,
    purpose   TEXT    NOT NULL,
    target    TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    outcome   TEXT    NOT NULL CHECK (outcome IN ('begun', 'done', 'failed')),
    detail    TEXT    NOT NULL,
    completes TEXT
) STRICT;
CREATE INDEX audit_entries_at ON audit_entries (at, id);

CREATE TABLE audit_recipients (
    entry     TEXT NOT NULL PRIMARY KEY,
    recipient BLOB CHECK (length(recipient) = 16),
    masked    TEXT NOT NULL
) STRICT;
CREATE INDEX audit_recipients_recipient ON audit_recipients (recipient) WHERE recipient IS NOT NULL;

-- An insert that replaces deletes without a DELETE trigger, unless the connection asks for recursive triggers.
CREATE TRIGGER audit_entries_added_once BEFORE INSERT ON audit_entries WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id)
BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER audit_entries_not_changed BEFORE UPDATE ON audit_entries
BEGIN SELECT RAISE(ABORT, 'rows of audit_entries are only added'); END;
CREATE TRIGGER audit_entries_not_deleted BEFORE DELETE ON audit_entries
BEGIN SELECT RAISE(ABORT, 'rows of audit_entries are only added'); END;
CREATE TRIGGER audit_recipients_added_once BEFORE INSERT ON audit_recipients WHEN EXISTS (SELECT 1 FROM audit_recipients WHERE entry = NEW.entry)
BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER audit_recipients_forget_only BEFORE UPDATE ON audit_recipients
WHEN NOT (NEW.entry = OLD.entry AND NEW.masked = '•••' AND (NEW.recipient IS NULL OR NEW.recipient IS OLD.recipient))
BEGIN SELECT RAISE(ABORT, 'rows of audit_recipients can only be forgotten'); END;
CREATE TRIGGER audit_recipients_not_deleted BEFORE DELETE ON audit_recipients
BEGIN SELECT RAISE(ABORT, 'rows of audit_recipients are only added'); END;

CREATE TABLE suppressions (
    id         TEXT    NOT NULL PRIMARY KEY,
    app        TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    address    BLOB    NOT NULL CHECK (length(address) = 16),
    recipient  BLOB    NOT NULL CHECK (length(recipient) = 16),
    masked     TEXT    NOT NULL,
    reason     TEXT    NOT NULL CHECK (reason IN ('hard_bounce', 'complaint', 'opt_out', 'manual')),
    detail     TEXT    NOT NULL,
    send_id    TEXT,
    created_by TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    lifted_at  INTEGER,
    lifted_by  TEXT    NOT NULL DEFAULT '',
    lifted_why TEXT    NOT NULL DEFAULT '',
    server     TEXT    NOT NULL DEFAULT '',
    words      TEXT    NOT NULL DEFAULT '',
    held_until INTEGER
) STRICT;
CREATE INDEX suppressions_words ON suppressions (server, words, since) WHERE words <> '';
CREATE INDEX suppressions_active ON suppressions (address, channel, until) WHERE lifted_at IS NULL;
CREATE INDEX suppressions_listed ON suppressions (since, id);

CREATE TABLE app_events (
    id              TEXT    NOT NULL PRIMARY KEY,
    app             TEXT    NOT NULL,
    type            TEXT    NOT NULL,
    send_id         TEXT,
    verification_id TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    test            INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    state           TEXT    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'given_up')),
    attempt         INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,
    ended_at        INTEGER,
    answer          TEXT    NOT NULL DEFAULT '',
    CHECK ((state = 'pending') = (due_at IS NOT NULL) AND (due_at IS NULL) = (ended_at IS NOT NULL))
) STRICT;
CREATE INDEX app_events_due ON app_events (app, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX app_events_pending ON app_events (at, id) WHERE due_at IS NOT NULL;
CREATE INDEX app_events_ended ON app_events (ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX app_events_app ON app_events (app, id);
CREATE INDEX app_events_given_up ON app_events (id) WHERE state = 'given_up';

CREATE TABLE erasures (
    recipient BLOB    NOT NULL PRIMARY KEY CHECK (length(recipient) = 16),
    forget_at INTEGER NOT NULL
) STRICT;
CREATE INDEX erasures_forget ON erasures (forget_at);

CREATE INDEX suppressions_recipient ON suppressions (recipient);

CREATE TABLE spending (
    cap     TEXT    NOT NULL,
    period  TEXT    NOT NULL,
    used    INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (cap, period)
) STRICT;

CREATE TABLE carrier_holds (
    channel   TEXT    NOT NULL,
    recipient BLOB    NOT NULL CHECK (length(recipient) = 16),
    since     INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (recipient, channel)
) STRICT;

CREATE TABLE provider_events (
    send_id  TEXT    NOT NULL,
    kind     TEXT    NOT NULL CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out', 'unmapped', 'delayed')),
    at       INTEGER NOT NULL,
    heard_at INTEGER NOT NULL,
    provider TEXT    NOT NULL,
    detail   TEXT    NOT NULL,
    PRIMARY KEY (send_id, kind)
) STRICT;

CREATE TABLE accounts (
    name        TEXT    NOT NULL PRIMARY KEY,
    role        TEXT    NOT NULL CHECK (role IN ('reader', 'operator', 'owner')),
    password    TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    disabled_at INTEGER,
    identity    TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE sessions (
    id         BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    account    TEXT    NOT NULL,
    bound      BLOB    NOT NULL CHECK (length(bound) = 32),
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    via        TEXT    NOT NULL DEFAULT '',
    granted    TEXT    NOT NULL DEFAULT '',
    passed     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sessions_started ON sessions (started_at);

CREATE UNIQUE INDEX accounts_identity ON accounts (identity) WHERE identity <> '';

CREATE TABLE second_factors (
    account    TEXT    NOT NULL PRIMARY KEY,
    sealed     BLOB    NOT NULL,
    step       INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE prefix_pauses (
    id         TEXT    NOT NULL PRIMARY KEY,
    app        TEXT    NOT NULL,
    country    TEXT    NOT NULL,
    prefix     TEXT    NOT NULL CHECK (prefix <> ''),
    class      TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    sends      INTEGER NOT NULL,
    approved   INTEGER NOT NULL,
    usual      INTEGER NOT NULL,
    lifted_at  INTEGER,
    lifted_by  TEXT    NOT NULL DEFAULT '',
    lifted_why TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX prefix_pauses_prefix ON prefix_pauses (app, prefix, since);

CREATE TABLE leases (
    name  TEXT    NOT NULL PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE pending_receipts (
    carrier    TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    send_id    TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    ask_at     INTEGER,
    asked      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (carrier, message_id)
) STRICT;
CREATE INDEX pending_receipts_send ON pending_receipts (send_id);
CREATE INDEX pending_receipts_ask ON pending_receipts (ask_at) WHERE ask_at IS NOT NULL;
CREATE INDEX pending_receipts_at ON pending_receipts (at);

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

CREATE TABLE counted_hours (
    hour INTEGER NOT NULL PRIMARY KEY
) STRICT;

CREATE TABLE hour_tallies (
    hour       INTEGER NOT NULL,
    app        TEXT    NOT NULL,
    channel    TEXT    NOT NULL,
    purpose    TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    blocked_by TEXT    NOT NULL,
    rows       INTEGER NOT NULL,
    requests   INTEGER NOT NULL,
    opened     INTEGER NOT NULL,
    approved   INTEGER NOT NULL,
    PRIMARY KEY (hour, app, channel, purpose, status, reason, blocked_by)
) STRICT;

CREATE TABLE hour_times (
    hour    INTEGER NOT NULL,
    app     TEXT    NOT NULL,
    channel TEXT    NOT NULL,
    purpose TEXT    NOT NULL,
    bucket  INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (hour, app, channel, purpose, bucket)
) STRICT;

CREATE TABLE hour_domains (
    hour     INTEGER NOT NULL,
    app      TEXT    NOT NULL,
    channel  TEXT    NOT NULL,
    purpose  TEXT    NOT NULL,
    domain   TEXT    NOT NULL,
    sends    INTEGER NOT NULL,
    failed   INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    PRIMARY KEY (hour, app, channel, purpose, domain)
) STRICT;

CREATE TABLE hour_codes (
    hour      INTEGER NOT NULL,
    app       TEXT    NOT NULL,
    channel   TEXT    NOT NULL,
    purpose   TEXT    NOT NULL,
    dimension TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    opened    INTEGER NOT NULL,
    approved  INTEGER NOT NULL,
    PRIMARY KEY (hour, app, channel, purpose, dimension, value)
) STRICT;

CREATE TABLE write_probe (
    filling BLOB NOT NULL
) STRICT;
-- +goose StatementEnd
