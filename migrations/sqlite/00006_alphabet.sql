-- +goose Up

-- As postgres/00006_alphabet.sql.
ALTER TABLE verifications ADD COLUMN alphabet text NOT NULL DEFAULT 'digits';
