-- +goose Up

-- Who logs in by a provider (OpenID Connect) is found by what that calls them.
ALTER TABLE accounts ADD COLUMN identity text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX accounts_identity ON accounts (identity) WHERE identity <> '';

ALTER TABLE sessions
    ADD COLUMN via     text    NOT NULL DEFAULT '',    -- '': by password; 'oidc': by the provider
    ADD COLUMN granted text    NOT NULL DEFAULT '',    -- what the provider said that gave a role to somebody without an account
    ADD COLUMN passed  boolean NOT NULL DEFAULT false; -- began with the second factor of then

-- What an account, the one of the settings too, proves itself with beside its password.
CREATE TABLE second_factors (
    account text        NOT NULL PRIMARY KEY,
    sealed  bytea       NOT NULL, -- the secret of RFC 6238
    step    bigint      NOT NULL, -- the newest time step whose code was taken: none is taken twice
    made_at timestamptz NOT NULL
);

-- A code that was used is deleted.
CREATE TABLE recovery_codes (
    account text  NOT NULL,
    hash    bytea NOT NULL CHECK (octet_length(hash) = 32), -- SHA-256; a code has 80 random bits
    PRIMARY KEY (account, hash)
);
