-- +goose Up

-- As postgres/00024_writable.sql.
CREATE TABLE writable (
    filling BLOB NOT NULL
) STRICT;
