from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_POST
from back import check, send

@require_POST
def ask(request):  # behind a proxy REMOTE_ADDR is the proxy's: take the address that it forwards
    to, asked = request.POST["to"], request.session.get("asked", {})
    status, answer = send(to, request.META["REMOTE_ADDR"], asked.get("id") if asked.get("to") == to else None)  # "send again": the same code
    if status == 202: request.session["asked"] = {"id": answer["id"], "to": to}  # the address stays here: a form can be changed
    return JsonResponse(answer, status=status)

@require_POST
def enter(request):
    asked = request.session.get("asked", {})
    status, answer = check(asked.get("id"), request.POST["code"], request.META["REMOTE_ADDR"])
    return HttpResponse("Welcome, " + asked["to"]) if answer.get("valid") else JsonResponse(answer, status=status)  # log in here
