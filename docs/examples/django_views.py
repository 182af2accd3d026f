from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_POST
from back import ask as codes, check, send

def shown(answer, *names): return {name: answer.get(name) for name in names}  # all else is for the back end alone
@require_POST
def ask(request):  # behind a proxy REMOTE_ADDR is the proxy's: take the address that it forwards
    to, asked = request.POST.get("to", ""), request.session.get("asked", {})
    status, answer = send(to, request.META["REMOTE_ADDR"], asked.get("id") if asked.get("to") == to else None)  # "send again": the same code
    if status == 202: request.session["asked"] = {"id": answer["id"], "to": to}
    return JsonResponse(shown({**answer.get("quota", {}), **answer}, "to", "detail", "retry_after"), status=status)
@require_POST
def enter(request):
    asked = request.session.setdefault("asked", {})
    status, answer = check(asked.get("id"), request.POST.get("code", ""), request.META["REMOTE_ADDR"])
    if "proof" in answer: asked["proof"], request.session.modified = answer["proof"], True
    if "proof" in asked: status, answer = codes("/v1/proofs/redeem", {"proof": asked["proof"]}, "redeem-" + asked["id"])  # again, if the answer was lost or another program's
    if "to" in answer: del request.session["asked"]; return HttpResponse(f"Welcome, {answer['to']}", "text/plain")  # log the address in here
    return JsonResponse(shown(answer, "status", "attempts_remaining", "detail"), status=503 if "proof" in asked and status < 300 else status)
