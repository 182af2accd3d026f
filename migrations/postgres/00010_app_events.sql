-- +goose Up

-- What apps are to be told of, each written by the statement that changed what it tells of. The row is the outbox of its
-- delivery; it holds nothing of the recipient, which is read from the send or the verification when it is delivered.
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
    answer          text        NOT NULL DEFAULT '',  -- what the last attempt came to
    CONSTRAINT app_events_pending_is_due CHECK ((state = 'pending') = (due_at IS NOT NULL) AND (due_at IS NULL) = (ended_at IS NOT NULL))
);

-- The outbox, by app: one that does not answer is not in the way of the others.
CREATE INDEX app_events_due ON app_events (app, due_at, id) WHERE due_at IS NOT NULL;

-- What nobody delivers any more, and what is forgotten.
CREATE INDEX app_events_pending ON app_events (at, id) WHERE due_at IS NOT NULL;
CREATE INDEX app_events_ended ON app_events (ended_at, id) WHERE ended_at IS NOT NULL;

-- Pages for the administrator; those of all apps go by the primary key.
CREATE INDEX app_events_app ON app_events (app, id);
CREATE INDEX app_events_given_up ON app_events (id) WHERE state = 'given_up';
