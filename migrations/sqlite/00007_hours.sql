-- +goose Up
-- +goose StatementBegin
-- What was counted in an hour that is over, as in postgres/00001_schema.sql, which explains it.
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
-- +goose StatementEnd
