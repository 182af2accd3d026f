import json, os, urllib.error, urllib.request

def ask(path, body, key=None):
    headers = {"Authorization": "Bearer " + os.environ["CODES_KEY"], "Content-Type": "application/json", "Idempotency-Key": key or os.urandom(16).hex()}
    request = urllib.request.Request(os.environ["CODES_URL"] + path, json.dumps(body).encode(), headers)
    try: answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as refusal: answer = refusal
    return answer.status, json.load(answer)

def send(to, client_ip, again=None, key=None):  # client_ip: the address of your user; again: the id of the code to send again
    more = {"verification_id": again} if again else {}
    return ask("/v1/verifications", {"channel": "email", "to": to, "trust": "stranger", "client_ip": client_ip, **more}, key)
def check(id, code, client_ip): return ask(f"/v1/verifications/{id}/check", {"code": code, "client_ip": client_ip})
