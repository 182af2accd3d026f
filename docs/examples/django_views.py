from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_POST
from back import ask as codes, check, send

@require_POST
def ask(request):  # behind a proxy REMOTE_ADDR is the proxy's: take the address that it forwards
    to, asked = request.POST["to"], request.session.get("asked", {})
    status, answer = send(to, request.META["REMOTE_ADDR"], asked.get("id") if asked.get("to") == to else None)  # "send again": the same code
    if status == 202: request.session["asked"] = {"id": answer["id"], "to": to}
    wait = answer.get("retry_after", answer.get("quota", {}).get("retry_after"))  # all else is for the back end alone
    return JsonResponse({"to": answer.get("to"), "detail": answer.get("detail"), "retry_after": wait}, status=status)
@require_POST
def enter(request):
    status, answer = check(request.session.get("asked", {}).get("id"), request.POST["code"], request.META["REMOTE_ADDR"])
    if "proof" in answer: status, answer = codes("/v1/proofs/redeem", {"proof": answer["proof"]})  # it has the proven address: log in here
    return HttpResponse(f"Welcome, {answer['to']}" if "to" in answer else answer.get("detail", "Not the code."), "text/plain", status)
