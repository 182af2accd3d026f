-- +goose Up

-- Who may log in to the console, beside the one whose password is in the settings.
CREATE TABLE accounts (
    name        text        NOT NULL PRIMARY KEY,
    role        text        NOT NULL CHECK (role IN ('reader', 'operator', 'owner')),
    password    text        NOT NULL, -- argon2id, PHC string
    made_at     timestamptz NOT NULL,
    disabled_at timestamptz           -- NULL: may log in
);

-- Who is logged in: in the database, so that logging out holds on every replica.
CREATE TABLE sessions (
    id         bytea       NOT NULL PRIMARY KEY CHECK (octet_length(id) = 32),    -- SHA-256 of what the cookie holds
    account    text        NOT NULL,
    bound      bytea       NOT NULL CHECK (octet_length(bound) = 32), -- names the password: a session ends when that changes
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);
CREATE INDEX sessions_started ON sessions (started_at);
