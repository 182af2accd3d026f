#!/bin/sh
# Makes the folder secrets beside compose.yaml, with a file for each secret. The secrets are random, except for smtp_url, which you replace by
# your own. Other users of this machine can't enter the folder. Its files are readable, because each container has a user of its own. The
# script needs the image sendcode:local. Without the image, name another command that makes keys: sh deploy/secrets.sh bin/sendcode key
set -eu
[ $# -gt 0 ] || set -- docker run --rm sendcode:local key
[ ! -e secrets ] || { echo "the folder secrets exists already, so nothing was written: move it away" >&2; exit 1; }
write() { printf '%s\n' "$2" > "secrets/$1"; }
random() { openssl rand -hex 24; }
ring=$("$@" --kind ring) index=$("$@" --kind index) api=$("$@" --kind secret 2> /dev/null)
owner=$(random) app=$(random) redis=$(random) password=$(random) token=$(random) postgres=$(random)
# If a key could not be made, the script has ended before it makes the folder.
umask 077
mkdir secrets
umask 022
write secret_keys "$ring"
write index_key "$index"
write api_key "$api"
write admin_password "$password"
write admin_token "$token"
write smtp_url smtp://user:password@mail.example.com:587
write redis_password "$redis"
write redis_url "redis://sendcode:$redis@redis:6379/0"
write postgres_password "$postgres" # for the superuser postgres; no program logs in as this user
write owner_password "$owner"
write app_password "$app"
write owner_url "postgres://sendcode_owner:$owner@postgres:5432/sendcode?sslmode=disable"
write database_url "postgres://sendcode_app:$app@postgres:5432/sendcode?sslmode=disable"
