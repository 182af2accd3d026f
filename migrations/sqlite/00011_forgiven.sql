-- +goose Up

-- As postgres/00011_forgiven.sql, where each choice is explained.
ALTER TABLE sends ADD COLUMN forgiven INTEGER NOT NULL DEFAULT 0;
ALTER TABLE verifications ADD COLUMN forgiven INTEGER NOT NULL DEFAULT 0;

CREATE TABLE erasures (
    recipient BLOB    NOT NULL PRIMARY KEY CHECK (length(recipient) = 16),
    erased_at INTEGER NOT NULL,
    forget_at INTEGER NOT NULL
) STRICT;
CREATE INDEX erasures_forget ON erasures (forget_at);

CREATE INDEX suppressions_recipient ON suppressions (recipient);
