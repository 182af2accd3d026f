import contextlib, json, os, secrets, urllib.parse, urllib.request, wsgiref.simple_server
url, key, shop = (os.environ[name] for name in ("CODES_URL", "CODES_KEY", "SHOP_URL"))
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
def signup(environ, start):
    query, fresh, to = dict(urllib.parse.parse_qsl(environ["QUERY_STRING"])), secrets.token_urlsafe(), ""
    redeem = urllib.request.Request(f"{url}/v1/proofs/redeem", json.dumps({"reference": query.get("reference", "")}).encode(), headers)
    with contextlib.suppress(OSError):  # refused; the state says that it began in this browser
        proven = f"state={query.get('state')}" in environ.get("HTTP_COOKIE", "").split("; ") and json.load(urllib.request.urlopen(redeem))
        if proven and (proven["channel"], proven["purpose"]) == ("email", "default"):  # anyone can change them in the page's address
            to = proven["to"]
    page = f"{url}/?app=shop&return_url=" + urllib.parse.quote(f"{shop}/signup?state={fresh}", safe="")
    start("200 OK" if to else "303 See Other", [] if to else [("Location", page), ("Set-Cookie", f"state={fresh}; HttpOnly; SameSite=Lax")])
    return [f"Welcome, {to}".encode()] if to else []  # make the account here
wsgiref.simple_server.make_server("127.0.0.1", urllib.parse.urlsplit(shop).port, signup).serve_forever()
