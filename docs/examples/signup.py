import http.client, json, os, secrets, urllib.error, urllib.parse, urllib.request, wsgiref.simple_server
url, key, shop = (os.environ[name] for name in ("CODES_URL", "CODES_KEY", "SHOP_URL"))
def redeem(reference):  # None: no answer, or one of another program, such as a firewall; "to" is missing in a refusal
    request = urllib.request.Request(f"{url}/v1/proofs/redeem", json.dumps({"reference": reference}).encode(), {"Content-Type": "application/json"})
    request.add_unredirected_header("Authorization", f"Bearer {key}")  # a portal's redirect must not get it
    try:
        try: answer = urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as refusal: answer = refusal
        said = json.load(answer)
        if answer.status < 300: return said if said.get("approved_at") else None
        return {} if answer.status < 500 and "/problems/" in str(said.get("type")) and said.get("request_id") else None
    except (OSError, ValueError, AttributeError, http.client.HTTPException): return None
def signup(environ, start):
    query, fresh, proven = dict(urllib.parse.parse_qsl(environ["QUERY_STRING"])), secrets.token_urlsafe(), {}
    if begun := f"state-{query.get('state')}=1" in environ.get("HTTP_COOKIE", "").split("; "):  # in this browser; each tab has a state of its own
        proven = redeem(query.get("reference", ""))
    to = proven and (proven.get("channel"), proven.get("purpose")) == ("email", "default") and proven["to"]  # anyone can change them in the page's address
    page = f"{url}/?app=shop&return_url=" + urllib.parse.quote(f"{shop}/signup?state={fresh}", safe="")
    start(*("200 OK", []) if to else ("503 Service Unavailable", []) if proven is None else ("400 Bad Request", []) if "reference" in query and not begun else ("303 See Other", [("Location", page), ("Set-Cookie", f"state-{fresh}=1; Max-Age=3600; HttpOnly; SameSite=Lax")]))
    return [f"Welcome, {to}".encode() if to else b"Please reload." if begun else b"This sign-up began in another browser. Please begin again."]  # make the account here
wsgiref.simple_server.make_server("127.0.0.1", urllib.parse.urlsplit(shop).port, signup).serve_forever()
