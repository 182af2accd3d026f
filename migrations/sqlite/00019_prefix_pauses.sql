-- +goose Up

-- As postgres/00019_prefix_pauses.sql.
CREATE TABLE prefix_pauses (
    id         TEXT    NOT NULL PRIMARY KEY,
    app        TEXT    NOT NULL,
    country    TEXT    NOT NULL,
    prefix     TEXT    NOT NULL CHECK (prefix <> ''),
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

CREATE TABLE turns (
    name  TEXT    NOT NULL PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;

CREATE INDEX sends_prefix ON sends (logged_at, app, prefix) WHERE prefix <> '';
