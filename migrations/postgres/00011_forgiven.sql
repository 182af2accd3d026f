-- +goose Up

-- What an administrator forgave. The rows stay as they were, so that the history can be read, and only stop counting: sends
-- in the recipient's rules, rejections in the rule on failures, tries in the bound on failed checks. Both columns are
-- constants until then, so no table is rewritten.
ALTER TABLE sends ADD COLUMN forgiven boolean NOT NULL DEFAULT false;
ALTER TABLE verifications ADD COLUMN forgiven integer NOT NULL DEFAULT 0; -- of the attempts

-- Who was erased, by the keyed hash. It frees no quota to be erased, so the hash stays where it counts until every window has
-- passed; then it goes everywhere, and this row with it.
CREATE TABLE erasures (
    recipient bytea       NOT NULL PRIMARY KEY CHECK (octet_length(recipient) = 16),
    erased_at timestamptz NOT NULL,
    forget_at timestamptz NOT NULL
);
CREATE INDEX erasures_forget ON erasures (forget_at);

-- Whose suppressions are erased and forgotten with them.
CREATE INDEX suppressions_recipient ON suppressions (recipient);
