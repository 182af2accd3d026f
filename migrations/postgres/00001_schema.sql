-- +goose Up
-- One statement for goose, which otherwise takes a buffer of 4 MiB for each line: under the race detector a quarter of them anew.
-- +goose StatementBegin

-- The schema of version 0.1.0. Later migrations only add to it. Three ideas hold it together:
--
--   * One table for each thing. sends has a row for each send, refusals one for each group of equal refusals; verifications has the codes
--     that the sends carried. No recipient stands here in the clear, and no code: it is derived from a verification's nonce and
--     a key that the database never sees. A caller's own code is encrypted, and only in the row of a send in flight.
--   * What changes is not indexed. A send is written once (Begin) and ended once (Finish). Nothing that ends it is in an index, in a
--     predicate or in a constraint of sends, so that the second write is a HOT update: a new row version on the same page, and no
--     index entry. What has to be found by its state has a small table of its own: outbox, refunds, failures, minute_index.
--   * At most nine index entries a send: sends 5 (key, recipient, time, kind, domain), verifications 2, outbox 2.
--
-- Texts with fixed values have no type of their own: a later version adds a value without rewriting what an older one reads. sends
-- and outbox have no CHECK: it would be parsed and evaluated at each update.
--
-- The console's queries, and what serves them (internal/store/sqldb/filter.go, stats.go, internal/store/postgres/filter.go):
--
-- Sends and refusals are listed together: each query reads both tables, whose indexes have the same columns, and merges them.
--
--   all rows, newest first, from a mark, between times   sends_logged, backwards
--   recipient                                            sends_recipient and refusals_recipient, merged
--   reference                                            sends_reference
--   app, channel, purpose, any of them                   sends_kind: one look for each kind that there is (loose scan), merged
--   mail domain                                          sends_domain
--   country                                              sends_country
--   provider                                             minute_index, then sends_logged in these minutes
--   status queued, sending                               outbox, then the key
--   status failed, unknown, undelivered                  failures, then the key
--   status refused                                       refusals_logged
--   status sent                                          sends_logged or sends_kind: most rows are
--   status delivered                                     minute_index, as for providers
--   blocked by a rule                                    refusals_blocked_by
--   outcome of the code, network of the client           sends_logged within the time that is asked for, and each code by its key
--   support reference, one row, rows by ID               the key
--   latest of many recipients                            sends_recipient and refusals_recipient, a look for each
--   sends and refusals of one verification               the same two, by the verification's recipient and time
--   statistics, domains with failures, codes entered     counted_hours and the tables hour_*; the hours that are not counted yet by sends_logged
--   what carriers lost                                   failures
--   rebuilding a limiter                                 sends_logged
--   text messages by prefix (the watch)                  sends_texts
--   audit entries, events, suppressions, pauses, accounts  their own indexes, below
--
-- Indexes have the time and not the ID that makes an order total: rows of one instant are sorted when they are read. Only the key
-- has the ID, so no plan can look a row up by its ID in any other index, whatever the statistics say.

-- The SHA-256, in hex, of the file that each migration was applied from: what differs from the program's files is another schema (package
-- migrations).
CREATE TABLE schema_fingerprints (
    version bigint NOT NULL PRIMARY KEY,
    sha256  text   NOT NULL
);

-- What the secret keys that the rows are written with are compared with at each start (package keys, check.go): "index key" is of
-- SENDCODE_INDEX_KEY, "key k1" of the entry k1 of SENDCODE_SECRET_KEYS. A value is a keyed hash of a fixed text: the key cannot be found by
-- it, and it is used for nothing else. A row is added at a key's first use; the service never changes or deletes one.
CREATE TABLE key_checks (
    name  text  NOT NULL PRIMARY KEY,
    value bytea NOT NULL CHECK (octet_length(value) = 32)
);

-- The first ID that a send of an instant can have: IDs begin with their time (RFC 9562 section 5.7).
CREATE FUNCTION sendcode_lowest_id(at timestamptz) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(greatest(0, floor(extract(epoch FROM at) * 1000)::bigint)), 12, '0') || '00000000000000000000')::uuid $$;

CREATE TABLE verifications (
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    approved_at  timestamptz,
    canceled_at  timestamptz,
    redeemed_at  timestamptz,                      -- its proof was exchanged for the address
    -- A status is not stored: it follows from these and the clock, so it can't contradict them.
    attempts     integer     NOT NULL DEFAULT 0,
    max_attempts integer     NOT NULL,
    sends        integer     NOT NULL,
    attempts_reset integer   NOT NULL DEFAULT 0, -- of the attempts: a reset of the quota took them back, and no bound counts them
    code_length  smallint    NOT NULL,
    caller_checks boolean    NOT NULL DEFAULT false, -- the caller made the code and checks it: this service only sends it, and never approves it
    class        text        NOT NULL DEFAULT '', -- of the caller that opened it: a secret key (''), a 'known' or an 'unknown' browser
    id           text        NOT NULL PRIMARY KEY, -- a capability: its week in three characters, then 128 random bits
    app          text        NOT NULL,
    channel      text        NOT NULL,
    purpose      text        NOT NULL,
    recipient    bytea       NOT NULL CHECK (octet_length(recipient) = 16), -- keyed hash: search and quota
    masked       text        NOT NULL,             -- for people
    sealed       bytea,                            -- encrypted, for a retry; NULL once erased
    redeemed_by  bytea,                            -- hash of the Idempotency-Key that did; NULL: none
    holder       text        NOT NULL,             -- may resend without naming the ID; '' is nobody
    nonce        bytea       NOT NULL,             -- the code is derived from it
    key_id       text        NOT NULL,
    alphabet     text        NOT NULL,             -- of the code
    locale       text        NOT NULL,
    reference    text        NOT NULL,
    checks       text        NOT NULL DEFAULT '', -- that were counted, max_attempts at most: µs since 1970 and the client's network, by commas
    replaces     text        NOT NULL DEFAULT '', -- IDs of the verifications in whose place it was opened, newest first, by commas
    check_key    bytea,                            -- keyed hashes of the last counted check's Idempotency-Key, and of that with its code
    details      text        NOT NULL DEFAULT '', -- what the code confirms, in the caller's words
    not_me_at    timestamptz,                      -- when the recipient reported that they did not ask for it
    reported     text        NOT NULL DEFAULT ''  -- by a caller that checks the code: 'due', 'failed', 'approved'; '': nothing, and none is expected
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Retention, and events of codes that expire. Not BRIN: new rows take the room of deleted ones, and a range of pages never forgets how old
-- its oldest row was.
CREATE INDEX verifications_expires ON verifications (expires_at);

-- How often one recipient's codes were tried lately, over all its verifications: the bound on failed checks. A send makes no entry.
CREATE INDEX verifications_tried ON verifications (recipient, app, channel, expires_at) WHERE attempts > 0;

-- The count of codes that their recipients reported.
CREATE INDEX verifications_not_me ON verifications (not_me_at) WHERE not_me_at IS NOT NULL;

-- One row for each send: the record and the second gate's memory in one, so that they cannot disagree. A partition for each week, by the time that IDs begin with: so the key holds over all of
-- them. Nothing refers to sends, and sends to nothing, by a foreign key: partitions are dropped whole.
CREATE TABLE sends (
    id              uuid        NOT NULL PRIMARY KEY,
    logged_at       timestamptz NOT NULL,             -- on this database's clock, read after the lock on the recipient
    finished_at     timestamptz,
    took            bigint      NOT NULL DEFAULT 0,   -- µs
    number          integer     NOT NULL,             -- of the send within its verification, from 1
    attempt         integer     NOT NULL,             -- fences late writers
    in_doubt        boolean     NOT NULL DEFAULT false, -- an earlier attempt ended without an outcome
    counts          boolean     NOT NULL,             -- uses one of the recipient's rules
    was_reset       boolean     NOT NULL DEFAULT false, -- a reset of the quota took it back: it counted until then
    suppression_id  uuid,                             -- that Begin met: the send goes to nobody
    status          text        NOT NULL,             -- queued, sending, sent, failed, unknown
    reason          text        NOT NULL DEFAULT '',
    provider        text        NOT NULL DEFAULT '',
    provider_code   text        NOT NULL DEFAULT '',
    receipt         text        NOT NULL DEFAULT '',  -- what a carrier said later: delivered, undelivered
    worst_event     text        NOT NULL DEFAULT '',  -- the worst that a mail provider said later
    bounced         boolean     NOT NULL DEFAULT false, -- one said that the address takes no mail
    app             text        NOT NULL,
    channel         text        NOT NULL,
    purpose         text        NOT NULL,
    recipient       bytea       NOT NULL,             -- keyed hash, 16 bytes
    masked          text        NOT NULL,
    domain          text        NOT NULL,             -- of a mail address, as the mask shows it; else ''
    country         text        NOT NULL,             -- of a phone number; else ''
    prefix          text        NOT NULL,             -- that a phone number begins with; else ''
    verification_id text        NOT NULL,
    locale          text        NOT NULL,
    reference       text        NOT NULL,
    network         text        NOT NULL,             -- the client's network, never its address
    site            text        NOT NULL DEFAULT '',  -- host on which a code of a text message is entered; '': the page's
    request_id      text        NOT NULL DEFAULT '',  -- of the HTTP request, as in log lines
    observed        text        NOT NULL DEFAULT '',  -- rules in mode observe that would have refused it, by commas
    human_check     text        NOT NULL DEFAULT ''   -- that was passed: 'work', or the vendor; '': none was needed
) PARTITION BY RANGE (id);

-- The second gate, and the sends of one recipient.
CREATE INDEX sends_recipient ON sends (recipient, logged_at);

CREATE INDEX sends_logged ON sends (logged_at);
CREATE INDEX sends_kind ON sends (app, channel, purpose, logged_at);
CREATE INDEX sends_domain ON sends (domain, logged_at) WHERE domain <> '';
CREATE INDEX sends_reference ON sends (reference, logged_at) WHERE reference <> '';

-- Text messages: they have no domain, so these are one entry more than mails have.
CREATE INDEX sends_texts ON sends (logged_at) WHERE channel = 'sms';
CREATE INDEX sends_country ON sends (country, logged_at) WHERE country <> '';

-- Requests that a rule refused: one row for repeated ones of one kind. They are apart from the sends, so that an attack on a recipient does
-- not make the check of its own sends slower.
CREATE TABLE refusals (
    id              uuid        NOT NULL PRIMARY KEY, -- version 7
    logged_at       timestamptz NOT NULL,
    retry_after     bigint      NOT NULL,             -- µs, as answered last
    requests        integer     NOT NULL,             -- that the row stands for
    recipients      integer     NOT NULL,             -- that the row stands for, about; 0: the one that it names
    app             text        NOT NULL,
    channel         text        NOT NULL,
    purpose         text        NOT NULL,
    recipient       bytea       NOT NULL,             -- keyed hash, 16 bytes; zeros for several recipients together
    masked          text        NOT NULL,
    domain          text        NOT NULL,
    country         text        NOT NULL,
    prefix          text        NOT NULL,
    verification_id text        NOT NULL,             -- '': it belongs to none
    locale          text        NOT NULL,
    network         text        NOT NULL,
    blocked_by      text        NOT NULL              -- the rule
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX refusals_recipient ON refusals (recipient, logged_at);
CREATE INDEX refusals_logged ON refusals (logged_at);
CREATE INDEX refusals_kind ON refusals (app, channel, purpose, logged_at);
CREATE INDEX refusals_domain ON refusals (domain, logged_at) WHERE domain <> '';
CREATE INDEX refusals_country ON refusals (country, logged_at) WHERE country <> '';
CREATE INDEX refusals_blocked_by ON refusals (blocked_by, logged_at);

-- What is in flight: Begin inserts, Finish deletes, and leases are renewed, ended and taken over here. A row is found by its key,
-- or by the time when it has to be looked after. Rows live for a second, so dead ones are vacuumed early; so are those of other queues and
-- of large tables whose rows change, below, for which a fifth of all rows would be late.
CREATE TABLE outbox (
    id         uuid        NOT NULL PRIMARY KEY, -- of the send
    due_at     timestamptz NOT NULL,             -- end of the lease, or time of the next attempt
    attempt    integer     NOT NULL,             -- as in sends
    queued     boolean     NOT NULL,             -- waits for its next attempt; else an attempt holds the lease
    channel    text        NOT NULL,
    stranger   boolean     NOT NULL,             -- asked for by one: strangers' sends wait apart from all others
    expires_at timestamptz NOT NULL, -- of the code: of what is due, the first to expire has its turn
    sealed     bytea                 -- a caller's code, encrypted, which is nowhere else; NULL: the code is derived
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outbox_due ON outbox (due_at);

-- Refunds that the limiter has not confirmed.
CREATE TABLE refunds (
    id      uuid        NOT NULL PRIMARY KEY, -- of the send
    since   timestamptz NOT NULL,             -- due since, or handed out then
    attempt integer     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX refunds_since ON refunds (since);

-- Sends that did not go well, written when it happens: by them the console finds failed, unknown and undelivered sends, and the
-- rule on failures counts. The send's own row has the last word on its status: a row here may be out of date.
CREATE TABLE failures (
    status      text        NOT NULL, -- failed, unknown, undelivered
    logged_at   timestamptz NOT NULL, -- as in sends
    id          uuid        NOT NULL, -- of the send
    finished_at timestamptz NOT NULL,
    counts      boolean     NOT NULL, -- in the rule on failures
    app         text        NOT NULL,
    channel     text        NOT NULL,
    recipient   bytea       NOT NULL,
    PRIMARY KEY (status, logged_at, id)
);
CREATE INDEX failures_recipient ON failures (recipient, app, channel, finished_at);

-- The minutes in which sends were logged that have a value in a column which is set later and so is in no index: that a provider had
-- in hand, that a carrier delivered, or that a browser's proof stood for. The console looks for such sends in these minutes alone.
CREATE TABLE minute_index (
    field  text        NOT NULL, -- provider, receipt
    value  text        NOT NULL,
    minute timestamptz NOT NULL,
    PRIMARY KEY (field, value, minute)
);
CREATE INDEX minute_index_minute ON minute_index (minute); -- retention

-- Requests that are one, by the caller's word (Idempotency-Key). A claim holds no request and no answer: it names the send that came
-- of it. Not partitioned: a key has to be unique over all time that it lives.
CREATE TABLE idempotency_keys (
    key         bytea       NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32), -- keyed hash
    fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 32),     -- keyed hash of the request
    send_id     uuid        NOT NULL,
    created_at  timestamptz NOT NULL,
    held_until  timestamptz NOT NULL -- until then a request works on it
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

-- What administrators did. Rows are only added: the trigger holds for every role, and the role that the service works as has no
-- right to anything else (package postgres, rights.go). The database's owner can take both away, so the service should not have the
-- owner's password.
CREATE TABLE audit_entries (
    id        uuid        NOT NULL PRIMARY KEY, -- version 7
    at        timestamptz NOT NULL,             -- on this database's clock
    actor     text        NOT NULL CHECK (actor <> ''),
    role      text        NOT NULL,
    network   text        NOT NULL,             -- where the request came from
    action    text        NOT NULL CHECK (action <> ''),
    app       text        NOT NULL,
    channel   text        NOT NULL,
    purpose   text        NOT NULL,
    target    text        NOT NULL,             -- ID of the send or name of the account that it was done to; '' is none
    reason    text        NOT NULL,             -- why, in the administrator's words; names no recipient
    outcome   text        NOT NULL CHECK (outcome IN ('begun', 'done', 'failed')),
    detail    text        NOT NULL,
    completes uuid                              -- the entry, begun before, whose outcome this row is
);
CREATE INDEX audit_entries_at ON audit_entries (at, id);

-- On whom. It stands apart from the entries, since a person may be erased and an entry may not change: a row here can lose what it says,
-- and nothing else.
CREATE TABLE audit_recipients (
    entry     uuid  NOT NULL PRIMARY KEY,
    recipient bytea CHECK (octet_length(recipient) = 16), -- keyed hash; NULL once forgotten
    masked    text  NOT NULL
);
CREATE INDEX audit_recipients_recipient ON audit_recipients (recipient) WHERE recipient IS NOT NULL;

CREATE FUNCTION sendcode_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are only added', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE FUNCTION sendcode_forget_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.entry = OLD.entry AND NEW.masked = '•••' AND (NEW.recipient IS NULL OR NEW.recipient = OLD.recipient) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'rows of % can only be forgotten', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries FOR EACH STATEMENT EXECUTE FUNCTION sendcode_append_only();
CREATE TRIGGER audit_recipients_append_only BEFORE DELETE OR TRUNCATE ON audit_recipients FOR EACH STATEMENT EXECUTE FUNCTION sendcode_append_only();
CREATE TRIGGER audit_recipients_forget_only BEFORE UPDATE ON audit_recipients FOR EACH ROW EXECUTE FUNCTION sendcode_forget_only();

-- Also in a session that plays a replica, where other triggers sleep.
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_append_only;
ALTER TABLE audit_recipients ENABLE ALWAYS TRIGGER audit_recipients_append_only;
ALTER TABLE audit_recipients ENABLE ALWAYS TRIGGER audit_recipients_forget_only;

-- Recipients that get no mail for a while, and why. A row is about one very address, not about all spellings of a mailbox: what one of
-- them bounces says nothing of the others. Rows are lifted, not deleted: they are a part of the record.
CREATE TABLE suppressions (
    id         uuid        NOT NULL PRIMARY KEY,
    app        text        NOT NULL, -- '': of every app
    channel    text        NOT NULL,
    address    bytea       NOT NULL CHECK (octet_length(address) = 16),   -- keyed hash of the very address: decides
    recipient  bytea       NOT NULL CHECK (octet_length(recipient) = 16), -- keyed hash as its sends have it: leads to them
    masked     text        NOT NULL,
    reason     text        NOT NULL CHECK (reason IN ('hard_bounce', 'complaint', 'opt_out', 'manual')),
    detail     text        NOT NULL,
    send_id    uuid,                 -- of which it came; NULL: by hand
    created_by text        NOT NULL,
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    lifted_at  timestamptz,
    lifted_by  text        NOT NULL DEFAULT '',
    lifted_why text        NOT NULL DEFAULT '',
    server     text        NOT NULL DEFAULT '', -- that refused the mail
    words      text        NOT NULL DEFAULT '', -- of its reply, normalised; '': of none
    held_until timestamptz           -- of a burst: until then it stops nothing
);
-- A server's bad hour is no reason to suppress: what is one burst, by one server with the same words, is held for a while.
CREATE INDEX suppressions_words ON suppressions (server, words, since) WHERE words <> '';
-- Begin looks one recipient up. What has run out stays in it: a predicate can't know the time.
CREATE INDEX suppressions_active ON suppressions (address, channel, until) WHERE lifted_at IS NULL;
CREATE INDEX suppressions_listed ON suppressions (since, id);
CREATE INDEX suppressions_recipient ON suppressions (recipient); -- erasure

-- Events for apps, each written by the statement that made the change. The row is the outbox of its delivery; it holds nothing of the
-- recipient, which is read from the send or the verification when it is delivered.
CREATE TABLE app_events (
    id              uuid        NOT NULL PRIMARY KEY, -- version 7; the receiver knows a repeated delivery by it
    app             text        NOT NULL,
    type            text        NOT NULL,
    send_id         uuid,                             -- NULL: it is about the verification
    verification_id text        NOT NULL,
    status          text        NOT NULL,             -- as it became then
    reason          text        NOT NULL,
    test            boolean     NOT NULL,             -- of a test recipient
    at              timestamptz NOT NULL,             -- on this database's clock
    state           text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'given_up')),
    attempt         integer     NOT NULL DEFAULT 0,   -- fences late writers
    due_at          timestamptz,                      -- pending: time of the next attempt, or end of the lease
    ended_at        timestamptz,
    answer          text        NOT NULL DEFAULT '',  -- of the last attempt
    CONSTRAINT app_events_pending_is_due CHECK ((state = 'pending') = (due_at IS NOT NULL) AND (due_at IS NULL) = (ended_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX app_events_due ON app_events (app, due_at, id) WHERE due_at IS NOT NULL; -- by app: one that does not answer is not in the way of others
CREATE INDEX app_events_pending ON app_events (at, id) WHERE due_at IS NOT NULL;      -- given up
CREATE INDEX app_events_ended ON app_events (ended_at, id) WHERE ended_at IS NOT NULL; -- forgotten
CREATE INDEX app_events_app ON app_events (app, id);                                   -- pages of one app; those of all go by the key
CREATE INDEX app_events_given_up ON app_events (id) WHERE state = 'given_up';

-- Recipients that were erased, by the keyed hash. Being erased frees no quota, so the hash stays where it counts until every window
-- has passed; then it goes everywhere, and this row with it.
CREATE TABLE erasures (
    recipient bytea       NOT NULL PRIMARY KEY CHECK (octet_length(recipient) = 16),
    forget_at timestamptz NOT NULL
);
CREATE INDEX erasures_forget ON erasures (forget_at);

-- What text messages have cost in a period, by what a cap looks at. One statement adds to it and looks at the cap, so that parallel
-- sends never pass it (package sqldb, spending.go).
CREATE TABLE spending (
    cap     text   NOT NULL,
    period  date   NOT NULL, -- its first day, in UTC
    used    bigint NOT NULL CHECK (used >= 0), -- millionths of the currency
    PRIMARY KEY (cap, period)
);

-- Recipients for which a carrier takes nothing more for a while.
CREATE TABLE carrier_holds (
    channel   text        NOT NULL,
    recipient bytea       NOT NULL CHECK (octet_length(recipient) = 16),
    since     timestamptz NOT NULL,
    until     timestamptz NOT NULL,
    PRIMARY KEY (recipient, channel)
);

-- What a mail provider said later of a mail that it had taken. Events are added, once for each kind, and change no status: so
-- duplicates and late ones take nothing back.
CREATE TABLE provider_events (
    send_id  uuid        NOT NULL,
    kind     text        NOT NULL CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out', 'unmapped', 'delayed')),
    at       timestamptz NOT NULL, -- as the provider says, no later than it was heard
    heard_at timestamptz NOT NULL,
    provider text        NOT NULL, -- its name in the configuration
    detail   text        NOT NULL, -- reply code and enhanced status code, or one word
    PRIMARY KEY (send_id, kind)
);

-- Text messages that a carrier took and of which nothing final is known: it reports by its own ID, or is asked. A row goes once there
-- is a receipt, and after three days (package sqldb, receipts.go).
CREATE TABLE pending_receipts (
    carrier    text        NOT NULL, -- its name in the configuration
    message_id text        NOT NULL, -- the carrier's
    send_id    uuid        NOT NULL,
    at         timestamptz NOT NULL,
    ask_at     timestamptz,          -- when it is asked next; NULL: never
    asked      integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (carrier, message_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE INDEX pending_receipts_send ON pending_receipts (send_id);
CREATE INDEX pending_receipts_ask ON pending_receipts (ask_at) WHERE ask_at IS NOT NULL;
CREATE INDEX pending_receipts_at ON pending_receipts (at);

-- Prefixes of phone numbers to which an app's text messages for one class of callers rest, because codes went there and hardly any came
-- back (package sqldb, prefix_watch.go). Rows are few, and a part of the record.
CREATE TABLE prefix_pauses (
    id         uuid        NOT NULL PRIMARY KEY,
    app        text        NOT NULL,
    country    text        NOT NULL,
    prefix     text        NOT NULL CHECK (prefix <> ''),
    class      text        NOT NULL, -- of the callers whose messages rest: as in verifications
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    sends      integer     NOT NULL, -- that were looked at
    approved   integer     NOT NULL, -- of them
    usual      integer     NOT NULL, -- percent that are approved elsewhere; -1: not known
    lifted_at  timestamptz,
    lifted_by  text        NOT NULL DEFAULT '',
    lifted_why text        NOT NULL DEFAULT ''
);
CREATE INDEX prefix_pauses_prefix ON prefix_pauses (app, prefix, since);
CREATE INDEX prefix_pauses_since ON prefix_pauses (since, id);

-- A look whether rows can be written fills this table and empties it again: for that it needs new pages, as rows of sends do
-- (package postgres, writable.go). Nothing reads it.
CREATE TABLE write_probe (
    filling text NOT NULL
);
ALTER TABLE write_probe ALTER COLUMN filling SET STORAGE PLAIN; -- neither compressed nor elsewhere

-- What a limiter without Redis counts and no other table tells: the events of networks, apps, countries, limits, logins and failed checks.
-- Each process writes its changes once a second and reads those of the others.
CREATE TABLE limiter_events (
    bucket   bytea       NOT NULL, -- the name, which may have an address in it, encrypted; equal names are equal here
    id       bytea       NOT NULL,
    at       timestamptz NOT NULL,
    until    timestamptz NOT NULL,               -- it counts no longer, and may be deleted
    refunded boolean     NOT NULL DEFAULT false, -- it counts no longer; the row tells the other processes
    writer   bigint      NOT NULL,               -- the process that wrote the row last
    seq      bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY, -- grows in the order of commits, under a lock
    PRIMARY KEY (bucket, id)
);
CREATE INDEX limiter_events_seq ON limiter_events (seq);
CREATE INDEX limiter_events_until ON limiter_events (until);

-- Work that one replica does for all: whose turn it is, until when.
CREATE TABLE leases (
    name  text        NOT NULL PRIMARY KEY,
    until timestamptz NOT NULL
);

-- The console's accounts, beside the one whose password is in the settings.
CREATE TABLE accounts (
    name        text        NOT NULL PRIMARY KEY,
    role        text        NOT NULL CHECK (role IN ('reader', 'operator', 'owner')),
    password    text        NOT NULL, -- argon2id, PHC string
    created_at  timestamptz NOT NULL,
    disabled_at timestamptz,          -- NULL: may log in
    identity    text        NOT NULL DEFAULT '' -- at the provider (OpenID Connect); '': logs in by password
);
CREATE UNIQUE INDEX accounts_identity ON accounts (identity) WHERE identity <> '';

-- Sessions are in the database, so that logging out holds on every replica.
CREATE TABLE sessions (
    id         bytea       NOT NULL PRIMARY KEY CHECK (octet_length(id) = 32), -- SHA-256 of what the cookie holds
    account    text        NOT NULL,
    bound      bytea       NOT NULL CHECK (octet_length(bound) = 32), -- names the password: a session ends when that changes
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    via        text        NOT NULL DEFAULT '',    -- '': by password; 'oidc': by the provider
    granted    text        NOT NULL DEFAULT '',    -- what the provider said that gave a role where there is no account
    passed     boolean     NOT NULL DEFAULT false  -- began with the second factor of then
);
CREATE INDEX sessions_started ON sessions (started_at);

-- What an account, the one of the settings too, proves itself with beside its password.
CREATE TABLE second_factors (
    account    text        NOT NULL PRIMARY KEY,
    sealed     bytea       NOT NULL, -- the secret of RFC 6238
    step       bigint      NOT NULL, -- the newest time step whose code was taken: none is taken twice
    created_at timestamptz NOT NULL
);

-- What the database counted in an hour that is over, so that it is counted once, beside the traffic (package postgres, rollup.go). An hour
-- that is not in counted_hours is counted from its rows.
CREATE TABLE counted_hours (
    hour timestamptz NOT NULL PRIMARY KEY -- its beginning
);

CREATE TABLE hour_tallies (
    hour       timestamptz NOT NULL,
    app        text        NOT NULL,
    channel    text        NOT NULL,
    purpose    text        NOT NULL,
    status     text        NOT NULL,
    reason     text        NOT NULL,
    blocked_by text        NOT NULL,
    rows       bigint      NOT NULL,
    requests   bigint      NOT NULL,
    opened     bigint      NOT NULL, -- verifications that are checked here, by their first sends
    approved   bigint      NOT NULL, -- of these
    PRIMARY KEY (hour, app, channel, purpose, status, reason, blocked_by)
);

-- Times between the row and the outcome of what was sent.
CREATE TABLE hour_times (
    hour    timestamptz NOT NULL,
    app     text        NOT NULL,
    channel text        NOT NULL,
    purpose text        NOT NULL,
    bucket  integer     NOT NULL, -- logarithm of the µs, to the base 1.04
    n       bigint      NOT NULL,
    PRIMARY KEY (hour, app, channel, purpose, bucket)
);

-- Sends by mail domain, as masks show it.
CREATE TABLE hour_domains (
    hour     timestamptz NOT NULL,
    app      text        NOT NULL,
    channel  text        NOT NULL,
    purpose  text        NOT NULL,
    domain   text        NOT NULL,
    sends    bigint      NOT NULL,
    failed   bigint      NOT NULL,
    rejected bigint      NOT NULL, -- of those that failed
    PRIMARY KEY (hour, app, channel, purpose, domain)
);

-- Verifications by what their first sends were of; by app and purpose they are in hour_tallies.
CREATE TABLE hour_codes (
    hour      timestamptz NOT NULL,
    app       text        NOT NULL,
    channel   text        NOT NULL,
    purpose   text        NOT NULL,
    dimension text        NOT NULL, -- country, carrier, domain
    value     text        NOT NULL, -- never ''
    opened    bigint      NOT NULL,
    approved  bigint      NOT NULL, -- of these
    PRIMARY KEY (hour, app, channel, purpose, dimension, value)
);

-- The partitions of sends that there are, and the time that each is for.
CREATE VIEW sendcode_partitions AS
SELECT c.oid AS id, c.relname::text AS name,
       to_timestamp(('x' || left(replace(substring(b.bound FROM $$FROM \('([0-9a-f-]{36})'\)$$), '-', ''), 12))::bit(48)::bigint / 1000.0) AS begins,
       to_timestamp(('x' || left(replace(substring(b.bound FROM $$TO \('([0-9a-f-]{36})'\)$$), '-', ''), 12))::bit(48)::bigint / 1000.0) AS ends
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
WHERE i.inhparent = 'sends'::regclass;
GRANT SELECT ON sendcode_partitions TO PUBLIC;

-- Both functions work as the tables' owner, for roles that may call them (package postgres, rights.go); so the names in them mean what
-- they mean here, whatever is made in other schemas.
DO $do$
BEGIN
PERFORM set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Makes the partitions of this week and of the four that follow, as far as they are not there, and returns the end of the last one.
-- The caller has no say in what is made. Half of each page is left for the second versions of its rows: a batch ends most rows of a page at once.
CREATE FUNCTION sendcode_make_partitions() RETURNS timestamptz LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $$
DECLARE
    goal timestamptz := (date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC') + interval '5 weeks') AT TIME ZONE 'UTC';
    last timestamptz;
    next timestamptz;
    name text;
BEGIN
    SELECT max(p.ends) INTO last FROM sendcode_partitions p;
    IF last >= goal THEN
        RETURN last;
    END IF;
    LOCK TABLE sends IN SHARE UPDATE EXCLUSIVE MODE; -- one at a time; readers and writers do not wait
    SELECT max(p.ends) INTO last FROM sendcode_partitions p;
    last := coalesce(last, date_trunc('week', clock_timestamp() AT TIME ZONE 'UTC' - interval '32 days') AT TIME ZONE 'UTC'); -- there is none at all
    WHILE last < goal LOOP
        next := (date_trunc('week', last AT TIME ZONE 'UTC') + interval '1 week') AT TIME ZONE 'UTC';
        name := 'sends_' || to_char(last AT TIME ZONE 'UTC', 'IYYY_"w"IW');
        EXECUTE format('CREATE TABLE %I (LIKE sends INCLUDING ALL) WITH (fillfactor = 50)', name);
        EXECUTE format('ALTER TABLE sends ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, sendcode_lowest_id(last), sendcode_lowest_id(next));
        last := next;
    END LOOP;
    RETURN last;
END $$;
REVOKE ALL ON FUNCTION sendcode_make_partitions() FROM PUBLIC;

-- Drops the oldest partition where all of its rows were logged before an instant, and returns its name; none that is younger than
-- what counts, whoever calls it, and none with a send in flight or a refund due. It waits for a tenth of a second, since all others
-- wait behind it, and fails with lock_not_available.
CREATE FUNCTION sendcode_drop_partition(before timestamptz) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '100ms'
AS $$
DECLARE
    old    record;
    needed boolean;
BEGIN
    before := least(before, clock_timestamp() - interval '32 days');
    SELECT p.id::regclass AS place, p.name, sendcode_lowest_id(p.ends) AS over INTO old FROM sendcode_partitions p WHERE p.ends <= before ORDER BY p.ends LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR round IN 1 .. 2 LOOP -- the second time nothing can change it any more
        EXECUTE format('SELECT EXISTS (SELECT FROM outbox WHERE id < $2) OR EXISTS (SELECT FROM refunds WHERE id < $2)
                               OR EXISTS (SELECT FROM %1$s WHERE logged_at >= $1)', old.place) INTO needed USING before, old.over;
        IF needed THEN
            RETURN NULL;
        END IF;
        IF round = 1 THEN
            LOCK TABLE sends IN ACCESS EXCLUSIVE MODE;
            IF NOT EXISTS (SELECT FROM sendcode_partitions p WHERE p.name = old.name) THEN
                RETURN NULL; -- another replica was first
            END IF;
        END IF;
    END LOOP;
    EXECUTE format('ALTER TABLE sends DETACH PARTITION %s', old.place);
    EXECUTE format('DROP TABLE %s', old.place);
    RETURN old.name;
END $$;
REVOKE ALL ON FUNCTION sendcode_drop_partition(timestamptz) FROM PUBLIC;
END $do$;
SELECT sendcode_make_partitions();
-- +goose StatementEnd
