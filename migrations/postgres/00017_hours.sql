-- +goose Up

-- What the log counted in an hour that is over, so that nobody counts it again (package audit, rollup.go). An hour that is not in
-- hours is counted from its rows.
CREATE TABLE hours (
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
    opened     bigint      NOT NULL, -- verifications, by their first sends
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
