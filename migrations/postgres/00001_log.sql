-- +goose Up

-- The log: every send, every refusal and every verification is a row. No recipient stands here in the clear, and no code
-- anywhere: a code is derived from a verification's nonce and a key that the database never sees.

CREATE TABLE verifications (
    id           text        NOT NULL PRIMARY KEY, -- a capability, at least 128 random bits
    app          text        NOT NULL,
    channel      text        NOT NULL,
    purpose      text        NOT NULL,
    recipient    bytea       NOT NULL CHECK (octet_length(recipient) = 16), -- keyed hash: search and quota
    masked       text        NOT NULL,             -- for people
    sealed       bytea,                            -- encrypted, for a retry; NULL once erased
    holder       text        NOT NULL,             -- who may resend without naming the id; '' is nobody
    nonce        bytea       NOT NULL,             -- the code is derived from it
    key_id       text        NOT NULL,
    code_length  smallint    NOT NULL,
    locale       text        NOT NULL,
    reference    text        NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- A status is not stored: it follows from these and the clock, so it can't contradict them.
    attempts     integer     NOT NULL CHECK (attempts BETWEEN 0 AND max_attempts),
    max_attempts integer     NOT NULL,
    sends        integer     NOT NULL,
    approved_at  timestamptz,
    canceled_at  timestamptz
);

-- Finds the verification that a holder may resend. Expired ones stay in it: a predicate can't know the time.
CREATE INDEX verifications_holder ON verifications (recipient, app, channel, purpose, holder, created_at)
    WHERE holder <> '' AND approved_at IS NULL AND canceled_at IS NULL;

-- One row for each send, and for repeated refusals of one kind together. It is the record, the second gate's memory and
-- the outbox in one, so that no two of them can disagree.
--
-- Ready for range partitions: id is a UUID version 7, which begins with its time, so partitions by ranges of id cut by
-- time while the primary key stays unique across all of them (a unique key must contain the partition key). For the
-- same reason nothing refers to sends, and sends refers to nothing, by a foreign key: partitions are dropped whole.
-- Begin alone writes a send together with its verification, in one statement.
CREATE TABLE sends (
    id              uuid        NOT NULL PRIMARY KEY,
    verification_id text        NOT NULL,             -- '' for a refusal that belongs to none
    number          integer     NOT NULL,             -- of the send within its verification, from 1; 0 for a refusal
    app             text        NOT NULL,
    channel         text        NOT NULL,
    purpose         text        NOT NULL,
    recipient       bytea       NOT NULL CHECK (octet_length(recipient) = 16),
    masked          text        NOT NULL,
    locale          text        NOT NULL,
    reference       text        NOT NULL,
    ip              text        NOT NULL,             -- the client's network, never its address
    -- Text with a check rather than an enum: a later version adds a state without rewriting what an older one reads.
    status          text        NOT NULL CHECK (status IN ('queued', 'sending', 'sent', 'failed', 'unknown', 'refused')),
    reason          text        NOT NULL DEFAULT '',
    attempt         integer     NOT NULL,             -- fences late writers
    in_doubt        boolean     NOT NULL DEFAULT false,
    counts          boolean     NOT NULL,             -- takes a place in the recipient's rules
    refund_since    timestamptz,                      -- a refund is due since, or was handed out then; NULL: none is due
    taken_at        timestamptz NOT NULL,             -- on the clock named next, of the limiter that let it in
    clock           text        NOT NULL,             -- 'log': no limiter did, and taken_at is logged_at
    logged_at       timestamptz NOT NULL,             -- on this database's clock, read after the lock on the recipient
    due_at          timestamptz,                      -- in flight: end of the lease, or time of the next attempt
    finished_at     timestamptz,
    provider        text        NOT NULL DEFAULT '',
    provider_code   text        NOT NULL DEFAULT '',
    took            bigint      NOT NULL DEFAULT 0,   -- µs
    blocked_by      text        NOT NULL DEFAULT '',
    retry_after     bigint      NOT NULL DEFAULT 0,   -- µs, as told last
    requests        integer     NOT NULL DEFAULT 1 CHECK (requests > 0), -- how many a refusal stands for
    CONSTRAINT sends_in_flight_is_due CHECK ((status IN ('queued', 'sending')) = (due_at IS NOT NULL)),
    CONSTRAINT sends_refusal_counts_not CHECK (status <> 'refused' OR NOT counts)
);

-- The second gate: one recipient's counting sends. Refusals and refunds are left out, so an attack on a recipient does
-- not make its own check slower.
CREATE INDEX sends_counting ON sends (recipient, app, channel, logged_at) WHERE counts;

-- The outbox: what is in flight, by the time somebody has to look after it.
CREATE INDEX sends_in_flight ON sends (due_at, id) WHERE due_at IS NOT NULL;

CREATE INDEX sends_refunds ON sends (refund_since, id) WHERE refund_since IS NOT NULL;

-- Pages of the whole log, of one recipient and of one reference: (logged_at, id) is their cursor.
CREATE INDEX sends_logged ON sends (logged_at, id);
CREATE INDEX sends_recipient ON sends (recipient, logged_at, id);
CREATE INDEX sends_reference ON sends (reference, logged_at, id) WHERE reference <> '';

CREATE INDEX sends_verification ON sends (verification_id) WHERE verification_id <> '';
