import http.client, json, os, urllib.error, urllib.request

def is_ours(status, said):  # a firewall, a proxy or a captive portal may answer in the service's place, with any status
    if status < 300: return {"quota", "valid", "approved_at", "outcome"} & said.keys()  # each success of the service has one
    return "/problems/" in str(said.get("type")) and "request_id" in said
def ask(path, body, key=None):
    request = urllib.request.Request(os.environ["CODES_URL"] + path, json.dumps(body).encode(), {"Content-Type": "application/json", "Idempotency-Key": key or os.urandom(16).hex()})
    request.add_unredirected_header("Authorization", "Bearer " + os.environ["CODES_KEY"])  # a portal's redirect must not get it
    try:
        try: answer = urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as refusal: answer = refusal
        said = json.load(answer)
        if not is_ours(answer.status, said): raise ValueError("another program answered")
        return answer.status, said
    except (OSError, ValueError, AttributeError, http.client.HTTPException) as error: return 503, {"detail": f"No answer: {error}"}

def send(to, client_ip, again=None, key=None):  # client_ip: the address of your user; again: the id of the code to send again
    return ask("/v1/verifications", {"channel": "email", "to": to, "client_ip": client_ip, **({"verification_id": again} if again else {})}, key)
def check(id, code, client_ip): return ask(f"/v1/verifications/{id}/check", {"code": code, "client_ip": client_ip})
