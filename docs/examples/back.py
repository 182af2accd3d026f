import http.client, json, os, urllib.error, urllib.request

def ask(path, body, key=None):
    headers = {"Authorization": "Bearer " + os.environ["CODES_KEY"], "Content-Type": "application/json", "Idempotency-Key": key or os.urandom(16).hex()}
    request = urllib.request.Request(os.environ["CODES_URL"] + path, json.dumps(body).encode(), headers)
    try:
        try: answer = urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as refusal: answer = refusal
        return answer.status, json.load(answer)
    except (OSError, ValueError, http.client.HTTPException) as error: return 503, {"detail": f"No answer: {error}"}

def send(to, client_ip, again=None, key=None):  # client_ip: the address of your user; again: the id of the code to send again
    return ask("/v1/verifications", {"channel": "email", "to": to, "client_ip": client_ip, **({"verification_id": again} if again else {})}, key)
def check(id, code, client_ip): return ask(f"/v1/verifications/{id}/check", {"code": code, "client_ip": client_ip})
