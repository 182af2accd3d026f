-- +goose Up
-- What a caller says of a code that it checks itself: 'due' (a report is expected), 'failed' or 'approved'; '': nothing, and none is expected.
ALTER TABLE verifications ADD COLUMN reported text NOT NULL DEFAULT '';
