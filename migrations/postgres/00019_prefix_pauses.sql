-- +goose NO TRANSACTION
-- +goose Up

-- Beginnings of phone numbers to which an app's text messages rest, because codes went there and hardly any came back (package
-- audit, watch.go). Rows are few, and a part of the record.
CREATE TABLE IF NOT EXISTS prefix_pauses (
    id         uuid        NOT NULL PRIMARY KEY,
    app        text        NOT NULL,
    country    text        NOT NULL,
    prefix     text        NOT NULL CHECK (prefix <> ''),
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    sends      integer     NOT NULL, -- that were looked at
    approved   integer     NOT NULL, -- of them
    usual      integer     NOT NULL, -- percent that are approved elsewhere; -1: not known
    lifted_at  timestamptz,
    lifted_by  text        NOT NULL DEFAULT '',
    lifted_why text        NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS prefix_pauses_prefix ON prefix_pauses (app, prefix, since);
CREATE INDEX IF NOT EXISTS prefix_pauses_since ON prefix_pauses (since, id);

-- Work that one replica does for all: whose turn it is, until when.
CREATE TABLE IF NOT EXISTS turns (
    name  text        NOT NULL PRIMARY KEY,
    until timestamptz NOT NULL
);

-- Text messages of a time, for the watch.
DROP INDEX CONCURRENTLY IF EXISTS sends_prefix;
CREATE INDEX CONCURRENTLY sends_prefix ON sends (logged_at, app, prefix) WHERE prefix <> '';
