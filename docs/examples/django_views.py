from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_POST
from back import check, send

@require_POST
def ask(request):
    status, answer = send(request.POST["to"])
    if status == 202:
        request.session["asked"] = {"id": answer["id"], "to": request.POST["to"]}  # the address stays here: a form can be changed
    return JsonResponse(answer, status=status)

@require_POST
def enter(request):
    asked = request.session.get("asked", {})
    status, answer = check(asked.get("id"), request.POST["code"])
    return HttpResponse("Welcome, " + asked["to"]) if answer.get("valid") else JsonResponse(answer, status=status)  # log in here
