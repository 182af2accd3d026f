-- +goose Up
-- Keyed hashes of the last counted check's Idempotency-Key, and of that with its code: a repetition has the same answer.
ALTER TABLE verifications ADD COLUMN check_key bytea;
