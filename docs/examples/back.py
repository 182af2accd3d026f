import json, os, urllib.error, urllib.request

def ask(path, body, key=None):
    headers = {"Authorization": "Bearer " + os.environ["CODES_KEY"], "Content-Type": "application/json", "Idempotency-Key": key or os.urandom(16).hex()}
    request = urllib.request.Request(os.environ["CODES_URL"] + path, json.dumps(body).encode(), headers)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as refusal:
        answer = refusal
    return answer.status, json.load(answer)

def send(to, key=None): return ask("/v1/verifications", {"channel": "email", "to": to, "trust": "stranger"}, key)
def check(id, code): return ask(f"/v1/verifications/{id}/check", {"code": code})
