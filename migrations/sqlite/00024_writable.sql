-- +goose Up

-- As postgres/00024_writable.sql.
CREATE TABLE writable (
    id      INTEGER PRIMARY KEY,
    filling BLOB NOT NULL
) STRICT;
