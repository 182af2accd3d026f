-- +goose Up

-- What a code is made of, kept with it: the configuration may change while it lives. Codes that a version before this one
-- opened are digits.
ALTER TABLE verifications ADD COLUMN alphabet text NOT NULL DEFAULT 'digits';
