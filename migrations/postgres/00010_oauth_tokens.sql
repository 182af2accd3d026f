-- +goose Up
-- The tokens of clients whose first refresh token is in a file: a token server may give another one with each token.
CREATE TABLE oauth_tokens (
    client       text        PRIMARY KEY,        -- its name in the settings
    sealed       bytea,                          -- the refresh token and the newest token, encrypted; NULL: none yet
    version      bigint      NOT NULL DEFAULT 0, -- grows with each of them
    until        timestamptz NOT NULL,           -- the newest token ends
    leased_until timestamptz NOT NULL            -- until then one process alone asks the token server
);
