-- The database and its two roles, made once, when the volume is empty. Neither is a superuser: sendcode_owner owns the
-- tables and migrates them, sendcode_app does what the service does and can change no administrator's act.
\set ON_ERROR_STOP on
\getenv owner_password DATABASE_OWNER_PASSWORD
\getenv app_password DATABASE_APP_PASSWORD
CREATE ROLE sendcode_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE sendcode_app LOGIN PASSWORD :'app_password';
CREATE DATABASE sendcode OWNER sendcode_owner;
REVOKE ALL ON DATABASE sendcode FROM PUBLIC;
GRANT CONNECT ON DATABASE sendcode TO sendcode_app;
