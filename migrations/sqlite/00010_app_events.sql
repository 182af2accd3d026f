-- +goose Up

-- What apps are to be told of, as in Postgres. Instants are µs since 1970, on the program's clock.
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
