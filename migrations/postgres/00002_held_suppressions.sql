-- +goose Up
-- A server's bad hour is no reason to suppress: what is one burst, by one server with the same words, is held for a while.
ALTER TABLE suppressions ADD COLUMN server text NOT NULL DEFAULT ''; -- that refused the mail
ALTER TABLE suppressions ADD COLUMN words text NOT NULL DEFAULT '';  -- of its reply, normalised; '': of none
ALTER TABLE suppressions ADD COLUMN held_until timestamptz;               -- of a burst: until then it stops nothing
CREATE INDEX suppressions_words ON suppressions (server, words, since) WHERE words <> '';
