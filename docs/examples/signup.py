import http.client, json, os, secrets, urllib.parse, urllib.request, wsgiref.simple_server
url, key, shop = (os.environ[name] for name in ("CODES_URL", "CODES_KEY", "SHOP_URL"))
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
def signup(environ, start):
    query, fresh, status, proven = dict(urllib.parse.parse_qsl(environ["QUERY_STRING"])), secrets.token_urlsafe(), 0, {}
    if begun := f"state-{query.get('state')}=1" in environ.get("HTTP_COOKIE", "").split("; "):  # in this browser; each tab has a state of its own
        redeem = urllib.request.Request(f"{url}/v1/proofs/redeem", json.dumps({"reference": query.get("reference", "")}).encode(), headers)
        try: proven = json.load(urllib.request.urlopen(redeem, timeout=10))
        except (OSError, ValueError, http.client.HTTPException) as error: status = getattr(error, "code", 503)  # refused, or no answer
    to = (proven.get("channel"), proven.get("purpose")) == ("email", "default") and proven["to"]  # anyone can change them in the page's address
    page = f"{url}/?app=shop&return_url=" + urllib.parse.quote(f"{shop}/signup?state={fresh}", safe="")
    start(*("200 OK", []) if to else ("503 Service Unavailable", []) if status >= 500 else ("400 Bad Request", []) if "reference" in query and not begun else ("303 See Other", [("Location", page), ("Set-Cookie", f"state-{fresh}=1; Max-Age=3600; HttpOnly; SameSite=Lax")]))
    return [f"Welcome, {to}".encode() if to else b"Please reload." if begun else b"This sign-up began in another browser. Please begin again."]  # make the account here
wsgiref.simple_server.make_server("127.0.0.1", urllib.parse.urlsplit(shop).port, signup).serve_forever()
